package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// TestWhatAnAPIServerRefusesFirst: the schema of the kind speaks before any rule, with the words of 'kubectl create'.
func TestWhatAnAPIServerRefusesFirst(t *testing.T) {
	t.Parallel()
	in := func(old, text string) string { return strings.Replace(vm, old, text, 1) }
	for _, test := range []struct{ why, text, want string }{
		{"unknown field", in("devices: {}", "devices: {disks: [{name: root, buss: virtio}]}"),
			"spec.template.spec.domain.devices.disks[0].buss: Forbidden: unknown field"},
		{"unknown metadata", in("namespace: shop", "namespace: shop, lables: {}"), "metadata.lables: Forbidden: unknown field"},
		{"wrong type", in("devices: {}", "devices: {}, cpu: {cores: two}"), `spec.template.spec.domain.cpu.cores: Invalid value: "two": must be a whole number`},
		{"a unit that Kubernetes does not have", in("devices: {}", "devices: {}, memory: {guest: 128MB}"),
			`spec.template.spec.domain.memory.guest: Invalid value: "128MB": must be a quantity: write 128M or 128Mi`},
		{"a number with a fraction", in("devices: {}", "devices: {}, cpu: {cores: 1.5}"),
			`spec.template.spec.domain.cpu.cores: Invalid value: 1.5: must be a whole number`},
		{"a number that is too large", in("devices: {}", "devices: {}, cpu: {cores: 4294967296}"),
			`spec.template.spec.domain.cpu.cores: Invalid value: 4294967296: must be from -2147483648 to 2147483647`},
		{"what the webhook's types do not hold", in("devices: {}", "devices: {}, cpu: {cores: -1}"),
			"spec.template.spec.domain.cpu.cores: Invalid value: -1: must be a whole number, 0 or more"},
		{"a label of a template that YAML reads as a number", in("template:\n", "template:\n    metadata: {labels: {version: 1.5}}\n"),
			"spec.template.metadata.labels[version]: Invalid value: 1.5: must be text: write it in quotes"},
		{"an unknown field of a template", in("template:\n", "template:\n    metadata: {lables: {a: b}}\n"),
			"spec.template.metadata.lables: Forbidden: unknown field: did you mean 'labels'?"},
		{"an entry of a list without a value", in("devices: {}", "devices: {disks: [null]}"),
			`spec.template.spec.domain.devices.disks[0]: Invalid value: "null": has no value: give one, or remove the entry`},
		{"a field of another level", in("devices: {}", "devices: {}, cpu: {ioThreadsPolicy: auto}"), "did you mean 'spec.template.spec.domain.ioThreadsPolicy'?"},
		{"a restore", "apiVersion: snapshot.kubevirt.io/v1beta1\nkind: VirtualMachineRestore\nmetadata: {name: r, namespace: shop}\n" +
			"spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, virtualMachineSnapshotName: s, volumeRestorePolicy: Never}\n",
			"spec.volumeRestorePolicy"},
		{"missing field", in("devices: {}", "devices: {disks: [{disk: {bus: virtio}}]}"), "spec.template.spec.domain.devices.disks[0].name: Required value"},
		{"unknown kind", in("VirtualMachine", "VirtualMashine"), "kind: Invalid value: \"VirtualMashine\": kubevirt.io/v1 has no such kind"},
		{"unknown version", in("kubevirt.io/v1", "kubevirt.io/v7"), "kubevirt.io/v7 has no such kind"},
		{"unknown field of an instancetype", strings.Replace(size, "guest: 3", "gast: 3, guest: 3", 1), "spec.cpu.gast: Forbidden: unknown field"},
	} {
		_, file := write(t, test.text)
		got := call(t, "", "validate", "-f", file)
		if !errors.Is(got.err, cmdutil.ErrRejected) || !strings.Contains(got.errOut, test.want) || got.out != "" {
			t.Errorf("%s: want '%s' on stderr alone, got %v\n%s%s", test.why, test.want, got.err, got.errOut, got.out)
		}
	}
}

// TestPresetWithoutDevices: a preset is no guest, so that it need not describe devices.
func TestPresetWithoutDevices(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(preset, ", devices: {}", "", 1))
	if got := call(t, "", "validate", "-f", file); got.err != nil {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
}

func TestEveryCauseWithItsLine(t *testing.T) {
	t.Parallel()
	wrong := `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: other, namespace: shop}
spec:
  runStrategy: Always
  instancetype: {name: medium}
  template:
    spec:
      domain:
        cpu: {cores: 2}
        memory:
          guest: 1Gi
        devices:
          disks:
          - name: lost
      volumes: []
`
	_, file := write(t, size, vm, wrong)
	got := call(t, "", "validate", "-f", file)
	want := []string{
		"VirtualMachine shop/other is rejected:",
		"disks[0].name", file + ":31: - name: lost",
		"cpu.cores", file + ":26: cpu: {cores: 2}",
		"memory.guest", file + ":28: guest: 1Gi",
	}
	for _, text := range want {
		if !strings.Contains(got.errOut, text) {
			t.Errorf("no '%s' in\n%s", text, got.errOut)
		}
	}
	if !errors.Is(got.err, cmdutil.ErrRejected) {
		t.Errorf("exit status: %v", got.err)
	}
}

func TestLinesOfTheStandardInput(t *testing.T) {
	t.Parallel()
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(conflicting), "\n", "\n  ") + "\n"
	got := call(t, size+"---\n"+list, "validate", "-f", "-", "-o", "json")
	var judged []workbench.Judgement
	for _, document := range items(t, got.out) {
		var j workbench.Judgement
		if err := json.Unmarshal(document, &j); err != nil {
			t.Fatalf("%v\n%s", err, got.out)
		}
		judged = append(judged, j)
	}
	if len(judged) != 2 || !judged[0].Allowed || judged[1].Allowed {
		t.Fatalf("want the instancetype accepted and the VM in a list not: %+v %v %s", judged, got.err, got.errOut)
	}
	want := []workbench.Cause{{Type: "FieldValueInvalid", Field: "spec.template.spec.domain.memory.guest",
		Message: judged[1].Causes[0].Message, File: manifest.StandardInput, Line: 17}}
	if diff := cmp.Diff(want, judged[1].Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestBrokenYAML: the document is named with the line of the file, and those before and after it are judged.
func TestBrokenYAML(t *testing.T) {
	t.Parallel()
	dir, file := write(t, size, vm+"  extra: [\n", preference)
	for _, from := range []string{file, dir} {
		got := call(t, "", "validate", "-f", from)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, file+": yaml: line 1") ||
			got.out != "VirtualMachineClusterInstancetype medium is accepted\nVirtualMachineClusterPreference linux is accepted\n" {
			t.Errorf("want file and line counted from its start, got %v\n%s%s", got.err, got.errOut, got.out)
		}
	}
}

// TestASizeThatIsNotThere: the webhook admits the VM with a warning, so validate does; but there is nothing to expand.
func TestASizeThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, file := write(t, vm)
	const warning = "Warning: VirtualMachine shop/web: VirtualMachineClusterInstancetype 'medium' is not among the files of -f and --catalog"
	if got := call(t, "", "validate", "-f", file); got.err != nil || !strings.Contains(got.errOut, warning) {
		t.Errorf("validate: %v\n%s", got.err, got.errOut)
	}
	for _, command := range []string{"expand", "render"} {
		got := call(t, "", command, "-f", file)
		if !errors.Is(got.err, cmdutil.ErrRejected) || !strings.Contains(got.errOut, warning) || !strings.Contains(got.errOut, "--catalog") || got.out != "" {
			t.Errorf("%s: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
	}
}

// TestKeysWithoutAValue: a create drops them, so that they are no mistake; server-side apply refuses them, so that they bring a warning.
func TestKeysWithoutAValue(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(vm, "devices: {}", "devices: {}, ioThreadsPolicy: , cpu: {model: }", 1))
	got := call(t, "", "validate", "-f", file)
	if got.err != nil {
		t.Fatalf("%v\n%s", got.err, got.errOut)
	}
	for _, path := range []string{"spec.template.spec.domain.ioThreadsPolicy", "spec.template.spec.domain.cpu.model"} {
		if !strings.Contains(got.errOut, path+" has no value: a create drops the key, and 'kubectl apply --server-side' refuses it") {
			t.Errorf("no warning about %s:\n%s", path, got.errOut)
		}
	}
}

// TestFilesAreNamed: with several files, each verdict names its file, and the last line has the counts.
func TestFilesAreNamed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.yaml": size, "b.yaml": vm, "c.yaml": conflicting})
	got := call(t, "", "validate", "-f", dir)
	want := fmt.Sprintf("VirtualMachineClusterInstancetype medium is accepted in %[1]s/a.yaml\nVirtualMachine shop/web is accepted in %[1]s/b.yaml\n"+
		"2 accepted, 1 rejected in 3 files\n", dir)
	if got.out != want || !strings.Contains(got.errOut, "VirtualMachine shop/web is rejected in "+dir+"/c.yaml:\n") || cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("%v\n%s\n%s", got.err, got.out, got.errOut)
	}
}

// TestSchemaAndRules: mistakes of the schema and causes of rules are listed in one run, without what follows from the mistakes.
func TestSchemaAndRules(t *testing.T) {
	t.Parallel()
	const disk = "disks: [{name: root, disk: {bus: virt}}]"
	for _, test := range []struct {
		why, domain string
		paths       []string // below spec.template.spec.domain
	}{
		{"an unknown field and a rule", "cpu: {cors: 2}, devices: {" + disk + "}", []string{"cpu.cors", "devices.disks[0].disk.bus"}},
		{"a wrong type and a rule", "ioThreads: 5, devices: {" + disk + "}", []string{"ioThreads", "devices.disks[0].disk.bus"}},
		{"a quantity, and no cause that it is missing", "memory: {guest: 2GB}, devices: {" + disk + "}", []string{"memory.guest", "devices.disks[0].disk.bus"}},
		{"the name of a disk: which volume it presents is not known", "devices: {disks: [{name: 5, disk: {bus: virt}}]}", []string{"devices.disks[0].name"}},
		{"a misspelled name", "devices: {disks: [{nme: root, disk: {bus: virt}}]}", []string{"devices.disks[0].nme", "devices.disks[0].disk.bus"}},
		{"an element: without it, others would have its index", "devices: {disks: [5, {name: root, disk: {bus: virt}}]}", []string{"devices.disks[0]"}},
		{"too many elements: nothing else is judged", "devices: {gpus: [" + strings.Repeat("{name: g, deviceName: d}, ", 600) + "], " + disk + "}",
			[]string{"devices.gpus"}},
		{"a misspelled field with a wrong value", "cpu: {cors: many}, devices: {" + disk + "}", []string{"cpu.cors"}},
	} {
		_, file := write(t, strings.NewReplacer("domain: {devices: {}}", "domain: {"+test.domain+"}", "  instancetype: {name: medium}\n", "").Replace(vm))
		got := call(t, "", "validate", "-f", file)
		var paths []string
		for line := range strings.Lines(got.errOut) {
			if path, found := strings.CutPrefix(line, "  spec.template.spec.domain."); found {
				path, _, _ = strings.Cut(path, ": ")
				paths = append(paths, path)
			}
		}
		if !slices.Equal(paths, test.paths) || cmdutil.ExitStatus(got.err) != 1 {
			t.Errorf("%s: %q, want %q\n%s", test.why, paths, test.paths, got.errOut)
		}
	}
}

// TestOrderOfMistakes: the mistakes of an object are printed in one order, each value has one, and the causes of rules come after them.
func TestOrderOfMistakes(t *testing.T) {
	t.Parallel()
	_, file := write(t, strings.Replace(vm, "devices: {}",
		"devices: {disks: [{name: a, disk: {bus: 3}, bootOrder: x}]}, cpu: {cores: 1.5, sockets: two, threads: []}", 1))
	first := call(t, "", "validate", "-f", file).errOut
	for range 20 {
		if again := call(t, "", "validate", "-f", file).errOut; again != first {
			t.Fatalf("another order:\n%s\n%s", first, again)
		}
	}
	if n := strings.Count(first, "Invalid value"); n != 6 || // five of the schema, and that there is no volume 'a'
		strings.Contains(first, "<nil>") {
		t.Errorf("%d causes, want 6 with a path each:\n%s", n, first)
	}
}

// TestKindsOfSnapshots: snapshots, restores and clones are judged by their schemas, and files that other commands read are left out.
func TestKindsOfSnapshots(t *testing.T) {
	t.Parallel()
	_, file := write(t, "apiVersion: snapshot.kubevirt.io/v1beta1\nkind: VirtualMachineSnapshot\nmetadata: {name: s, namespace: shop}\n"+
		"spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}}\n",
		"apiVersion: clone.kubevirt.io/v1beta1\nkind: VirtualMachineClone\nmetadata: {name: c, namespace: shop}\n"+
			"spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: web2}}\n",
		"apiVersion: kilnvm.io/v1alpha1\nkind: GuestPolicyTest\npolicy: x\ncases: []\n")
	got := call(t, "", "validate", "--strict", "-f", file)
	if got.err != nil || !strings.Contains(got.out, "VirtualMachineSnapshot shop/s is accepted") ||
		!strings.Contains(got.out, "VirtualMachineClone shop/c is accepted") || strings.Contains(got.out+got.errOut, "GuestPolicyTest is rejected") {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
}

// TestCausesOfFieldsThatAreMissing: an API server asks the webhook before it judges the schema, so that all that is missing is named at once, with the remedy.
func TestCausesOfFieldsThatAreMissing(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: shop}\n"
	for text, want := range map[string][]string{
		"spec: {}\n": {"spec.template: Required value: ", "spec.runStrategy: Required value: "},
		"spec: {template: {spec: {domain: {}}}}\n": {"spec.template.spec.domain.devices: Required value",
			"spec.runStrategy: Required value: "},
		"spec: {runStrategy: Always, template: {spec: {domain: {devices: {disks: [{}]}}}}}\n": {"spec.template.spec.domain.memory: Required value: ",
			"spec.template.spec.domain.devices.disks[0].name: Required value"},
		// What follows is refused before the webhook is asked.
		"spec: {runStrategy: Always, tmplate: {spec: {domain: {devices: {}}}}}\n": {"spec.tmplate: Forbidden"},
		"spec: {template: {spec: {domain: {devices: [], memory: {}}}}}\n":         {"spec.template.spec.domain.devices: Invalid value"},
	} {
		got := call(t, head+text, "validate", "-f", "-")
		if cmdutil.ExitStatus(got.err) != 1 {
			t.Errorf("%s: %v", text, got.err)
		}
		for _, cause := range want {
			if strings.Count(got.errOut, "  "+cause) != 1 {
				t.Errorf("%s: want '%s' once in\n%s", text, cause, got.errOut)
			}
		}
	}
}
