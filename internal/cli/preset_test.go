package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/presetmigration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

const watched = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstancePreset
metadata: {name: watched, namespace: shop}
spec:
  selector: {matchLabels: {tier: web}}
  domain: {cpu: {cores: 4, model: host-passthrough}, memory: {guest: 9Gi}, devices: {watchdog: {name: dog, i6300esb: {action: reset}}}}
`

// webVM is a VM that the preset matches.
func webVM(domain string) string {
	return `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {tier: web}}
    spec: {domain: {memory: {guest: 1Gi}, devices: {}` + domain + `}}
`
}

const watchedProfile = `---
apiVersion: kilnvm.io/v1alpha1
kind: GuestProfile
metadata:
  name: watched
  namespace: shop
spec:
  allowExclusion: true
  priority: 0
  selector:
    matchLabels:
      tier: web
  template:
    spec:
      domain:
        cpu:
          cores: 4
          model: host-passthrough
        devices:
          watchdog:
            i6300esb:
              action: reset
            name: dog
`

// TestPresetMigrate: standard output is the manifests alone, and the exit status says whether every VMI stays as it is.
func TestPresetMigrate(t *testing.T) {
	t.Parallel()
	const left = "preset shop/watched: GuestProfile shop/watched\n" +
		"  left out: spec.domain.memory: presets do not cover it, so no VMI gets it from this preset\n"
	for _, test := range []struct {
		why, files string
		status     int
		out        string
		says       []string
	}{
		{"a VM that stays as it is", watched + "---\n" + webVM(""), 0, watchedProfile, []string{left,
			"VMs and VMIs: 1 equal\n  1 of them have fields of presets; 1 were rendered"}},
		{"no VM", watched, 0, watchedProfile, []string{left, "nothing was compared: no VM or VMI was given\n"}},
		{"a VM with a part of an area", watched + "---\n" + webVM(", cpu: {cores: 2}"), 3, watchedProfile, []string{left,
			"VirtualMachine shop/web differs:\n" +
				"  preset watched fills spec.domain.cpu where the VMI has nothing of it, and the VMI has spec.domain.cpu.cores (user):\n" +
				"    spec.domain.cpu.model: \"host-model\" -> \"host-passthrough\" (GuestProfile watched@watched-",
			"  to keep its VMI unchanged, write into its spec.template:\n    spec.domain.cpu.model: \"host-model\"\n", "VMs and VMIs: 1 different\n"}},
		{"a preset that fills nothing", strings.Replace(watched, "domain: {cpu: {cores: 4, model: host-passthrough}, memory: {guest: 9Gi}, devices: "+
			"{watchdog: {name: dog, i6300esb: {action: reset}}}}", "domain: {devices: {}}", 1), 0, "",
			[]string{"preset shop/watched fills nothing: it has no profile\n"}},
		{"a selector that cannot be read", strings.Replace(watched, "matchLabels: {tier: web}", "matchExpressions: [{key: a, operator: Like}]", 1), 1, "",
			[]string{"preset shop/watched is rejected and not migrated:\n  spec.selector: "}},
		{"an instancetype that does not exist", watched + "---\n" + strings.Replace(webVM(""), "  template:", "  instancetype: {name: none}\n  template:", 1), 1,
			watchedProfile, []string{"VirtualMachine shop/web is not compared: it refers to an object that does not exist\n  add the missing object's file"}},
		{"no preset", webVM(""), 2, "", nil},
		{"a file that is no object", watched + "---\na: b\n", 2, watchedProfile, []string{"error: "}},
	} {
		got := call(t, test.files, "preset", "migrate", "-f", "-")
		if cmdutil.ExitStatus(got.err) != test.status {
			t.Errorf("%s: status %d, want %d: %v", test.why, cmdutil.ExitStatus(got.err), test.status, got.err)
		}
		if diff := cmp.Diff(test.out, got.out); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
		for _, text := range test.says {
			if !strings.Contains(got.errOut, text) {
				t.Errorf("%s: no '%s' in\n%s", test.why, text, got.errOut)
			}
		}
	}
}

// TestPresetMigrateIntoAFolder: each profile is a file, the report is the output, and what is written can be read back: nothing differs from it.
func TestPresetMigrateIntoAFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "profiles")
	got := call(t, watched+"---\n"+webVM(""), "preset", "migrate", "-f", "-", "--output-dir", folder)
	raw, err := os.ReadFile(filepath.Join(folder, "shop", "watched.yaml"))
	if err != nil || "---\n"+string(raw) != watchedProfile || got.err != nil || !strings.HasPrefix(got.out, "preset shop/watched: GuestProfile") ||
		got.errOut != "" {
		t.Fatalf("%v %v\n%s%s%s", err, got.err, raw, got.out, got.errOut)
	}
	again := call(t, watched, "preset", "migrate", "-f", "-", "--output-dir", folder)
	if cmdutil.ExitStatus(again.err) != 2 || !strings.Contains(again.err.Error(), "is not empty") {
		t.Errorf("a folder with files must be refused: %v", again.err)
	}
	with := call(t, watched+"---\n"+webVM(""), "expand", "-f", "-", "-o", "json")
	instead := call(t, string(raw)+"---\n"+webVM(""), "expand", "-f", "-", "-o", "json")
	mark := "          \"kubevirt.io/pci-topology-version\": \"v3\",\n          \"virtualmachinepreset.kubevirt.io/watched\": \"kubevirt.io/v1\"\n"
	if before := strings.Replace(with.out, mark, "          \"kubevirt.io/pci-topology-version\": \"v3\"\n", 1); before != instead.out || with.out == before {
		t.Errorf("(-presets +profiles):\n%s", cmp.Diff(before, instead.out))
	}
}

// TestPresetMigrateAsADocument: a program reads profiles and comparison in one document, whose lists are never null.
func TestPresetMigrateAsADocument(t *testing.T) {
	t.Parallel()
	got := call(t, watched+"---\n"+webVM(", cpu: {cores: 2}"), "preset", "migrate", "-f", "-", "-o", "json")
	var done presetmigration.Result
	if err := json.Unmarshal([]byte(got.out), &done); err != nil || cmdutil.ExitStatus(got.err) != 3 || got.errOut != "" {
		t.Fatalf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
	if done.Guests[0].State != presetmigration.Differs || done.Guests[0].Remedy == nil || done.Presets[0].Profile["kind"] != "GuestProfile" {
		t.Errorf("%+v", done)
	}
	if got := call(t, watched, "preset", "migrate", "-f", "-", "-o", "json"); strings.Contains(got.out, "null") {
		t.Errorf("a list is null:\n%s", got.out)
	}
}

// TestPresetMigrateWithoutAnAnswer: a VM that could not be compared is a fault, and not counted as equal. Hostile names lead to no file.
func TestPresetMigrateWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	lost := strings.Replace(webVM(""), "namespace: shop}", `namespace: shop, annotations: {kilnvm.io/pins: '{"instancetype":"gone"}'}}`, 1)
	lost = strings.NewReplacer("VirtualMachine\n", "VirtualMachineInstance\n", "devices: {}}}\n", "devices: {}}\n",
		"  runStrategy: Always\n  template:\n    metadata: {labels: {tier: web}}\n    spec: {domain", "  domain").Replace(lost)
	got := call(t, watched+"---\n"+lost, "preset", "migrate", "-f", "-")
	if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, "error: VirtualMachineInstance shop/web: revision 'gone'") ||
		!strings.Contains(got.errOut, "VMs and VMIs: 1 not compared") {
		t.Errorf("%v\n%s", got.err, got.errOut)
	}
	folder := filepath.Join(t.TempDir(), "profiles")
	got = call(t, strings.Replace(watched, "namespace: shop", "namespace: ../..", 1), "preset", "migrate", "-f", "-", "--output-dir", folder)
	if _, err := os.Stat(folder); err == nil || cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.out, "is rejected and not migrated") {
		t.Errorf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
}

func TestPresetMigrateUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", "-", "-A"}, "-A is for the cluster"},
		{[]string{"-f", filepath.Join(t.TempDir(), "none.yaml")}, "does not exist"},
		{[]string{"vm/web"}, "1 argument ('vm/web'): the usage is 'kubectl kiln preset migrate"},
		{nil, noCluster},
	} {
		got := call(t, watched, append([]string{"preset", "migrate"}, test.args...)...)
		if cmdutil.ExitStatus(got.err) != 2 || !strings.Contains(got.err.Error(), test.want) {
			t.Errorf("%q: %v, want '%s'", test.args, got.err, test.want)
		}
	}
}

// TestMigratedTextsAreAStrangers: names, values and causes are a tenant's.
func TestMigratedTextsAreAStrangers(t *testing.T) {
	t.Parallel()
	streams, _, out, errOut := genericclioptions.NewTestIOStreams()
	m := migrateRun{Inputs: cmdutil.NewInputs(&cmdutil.Session{IOStreams: streams})}
	m.Output = "text"
	field := presetmigration.Field{Field: hostile, Before: hostile, Origin: hostile, Reason: hostile}
	err := m.printMigrated(presetmigration.Result{
		Presets: []presetmigration.Preset{{Preset: hostile, LeftOut: []string{hostile}, Warnings: []string{hostile},
			Causes: []workbench.Cause{{Message: hostile}}}},
		Guests: []presetmigration.Guest{{Object: hostile, State: presetmigration.Differs, Causes: []string{hostile}, Fields: []presetmigration.Field{field},
			Remedy: &presetmigration.Remedy{Fields: []presetmigration.RemedyField{{Field: hostile, Value: hostile}}}}},
	})
	text := out.String() + errOut.String()
	if err != nil || strings.ContainsAny(text, "\x1b\r\t\u202e\u009b") || strings.Count(text, "\n") != 12 {
		t.Errorf("%v: %d lines: %q", err, strings.Count(text, "\n"), text)
	}
}
