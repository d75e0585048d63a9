package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/workbench"
)

// TestWhatAnAPIServerRefusesFirst: the schema of the kind speaks before any rule, with the words of 'kubectl create'.
func TestWhatAnAPIServerRefusesFirst(t *testing.T) {
	t.Parallel()
	in := func(old, text string) string { return strings.Replace(vm, old, text, 1) }
	for _, test := range []struct{ why, text, want string }{
		{"unknown field", in("devices: {}", "devices: {disks: [{name: root, buss: virtio}]}"),
			"spec.template.spec.domain.devices.disks[0].buss: Forbidden: unknown field"},
		{"unknown metadata", in("namespace: shop", "namespace: shop, lables: {}"), "metadata.lables: Forbidden: unknown field"},
		{"wrong type", in("devices: {}", "devices: {}, cpu: {cores: two}"), `spec.template.spec.domain.cpu.cores: Invalid value: "string": must be of type integer`},
		{"missing field", in("devices: {}", "devices: {disks: [{disk: {bus: virtio}}]}"), "spec.template.spec.domain.devices.disks[0].name: Required value"},
		{"unknown kind", in("VirtualMachine", "VirtualMashine"), "kind: Invalid value: \"VirtualMashine\": kubevirt.io/v1 has no such kind"},
		{"unknown version", in("kubevirt.io/v1", "kubevirt.io/v7"), "kubevirt.io/v7 has no such kind"},
		{"unknown field of an instancetype", strings.Replace(size, "guest: 3", "gast: 3, guest: 3", 1), "spec.cpu.gast: Forbidden: unknown field"},
	} {
		_, file := write(t, test.text)
		got := call(t, "", "validate", "-f", file)
		if !errors.Is(got.err, ErrRejected) || !strings.Contains(got.errOut, test.want) || got.out != "" {
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
	if !errors.Is(got.err, ErrRejected) {
		t.Errorf("exit status: %v", got.err)
	}
}

func TestLinesOfTheStandardInput(t *testing.T) {
	t.Parallel()
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(conflicting), "\n", "\n  ") + "\n"
	got := call(t, size+"---\n"+list, "validate", "-f", "-", "-o", "json")
	var judged []workbench.Judgement
	decoder := json.NewDecoder(strings.NewReader(got.out))
	for decoder.More() {
		var j workbench.Judgement
		if err := decoder.Decode(&j); err != nil {
			t.Fatalf("%v\n%s", err, got.out)
		}
		judged = append(judged, j)
	}
	if len(judged) != 2 || !judged[0].Allowed || judged[1].Allowed {
		t.Fatalf("want the instancetype accepted and the VM in a list not: %+v %v %s", judged, got.err, got.errOut)
	}
	want := []workbench.Cause{{Type: "FieldValueInvalid", Field: "spec.template.spec.domain.memory.guest",
		Message: judged[1].Causes[0].Message, File: workbench.StandardInput, Line: 17}}
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
		if ExitStatus(got.err) != 2 || !strings.Contains(got.errOut, file+": yaml: line 1") ||
			got.out != "VirtualMachineClusterInstancetype medium is accepted\nVirtualMachineClusterPreference linux is accepted\n" {
			t.Errorf("want file and line counted from its start, got %v\n%s%s", got.err, got.errOut, got.out)
		}
	}
}

// TestASizeThatIsNotThere: the webhook admits the VM with a warning, so validate does; but there is nothing to expand.
func TestASizeThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, file := write(t, vm)
	const warning = "Warning: VirtualMachine shop/web: VirtualMachineClusterInstancetype 'medium' does not exist"
	if got := call(t, "", "validate", "-f", file); got.err != nil || !strings.Contains(got.errOut, warning) {
		t.Errorf("validate: %v\n%s", got.err, got.errOut)
	}
	for _, command := range []string{"expand", "render"} {
		got := call(t, "", command, "-f", file)
		if !errors.Is(got.err, ErrRejected) || !strings.Contains(got.errOut, warning) || !strings.Contains(got.errOut, "--catalog") || got.out != "" {
			t.Errorf("%s: %v\n%s%s", command, got.err, got.errOut, got.out)
		}
	}
}
