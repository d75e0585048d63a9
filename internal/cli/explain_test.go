package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

const preference = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: linux}
spec: {devices: {preferredDiskBus: virtio, preferredSoundModel: ac97}, machine: {preferredMachineType: pc-q35-7.2}}
`

var preferred = strings.Replace(strings.Replace(vm, "{name: medium}", "{name: medium}\n  preference: {name: linux}", 1),
	"devices: {}", "devices: {disks: [{name: root, disk: {bus: sata}}]}", 1)

func TestExplainIsATree(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, preference, preferred)
	got := call(t, "", "explain", "-f", file)
	if got.err != nil {
		t.Fatal(got.err, got.errOut)
	}
	for _, line := range []string{
		"VirtualMachine shop/web",
		`      machine: type: "pc-q35-7.2"  preference linux@linux-`,
		`      memory: guest: "2Gi"  instancetype medium@medium-`,
		`        disks[0]: name: "root"  user`,
		`          disk: bus: "sata"  user`,
		`    architecture: "amd64"  default (architecture)`,
		`not applied:`,
		`devices.preferredDiskBus: spec.domain.devices.disks[0].disk.bus is "sata" (user)`,
		`devices.preferredSoundModel: the VMI has no sound device`,
	} {
		if !strings.Contains(squeezed(got.out), squeezed(line)) {
			t.Errorf("no '%s' in\n%s", line, got.out)
		}
	}
}

// squeezed is a text without its line breaks, indentation and columns.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestExplainAnswersInJSON(t *testing.T) {
	t.Parallel()
	_, file := write(t, size, preference, preferred)
	got := call(t, "", "explain", "-f", file, "-o", "json")
	var answer struct {
		Object string
		Fields []struct {
			Path   string
			Value  any
			Origin struct{ Kind, Name, Revision string }
		}
		NotApplied []struct{ Field, Reason string }
	}
	if err := json.Unmarshal(item(t, got), &answer); err != nil || got.err != nil {
		t.Fatalf("%v %v\n%s%s", err, got.err, got.out, got.errOut)
	}
	if answer.Object != "VirtualMachine shop/web" || len(answer.NotApplied) != 2 {
		t.Errorf("object and the two fields that were not applied: %+v", answer)
	}
	for _, f := range answer.Fields {
		if f.Path == "spec.domain.memory.guest" && (f.Value != "2Gi" || f.Origin.Name != "medium" || !strings.HasPrefix(f.Origin.Revision, "medium-")) {
			t.Errorf("memory: %+v", f)
		}
	}
	_, file = write(t, size, conflicting)
	if got := call(t, "", "explain", "-f", file); cmdutil.ExitStatus(got.err) != 1 || got.out != "" {
		t.Errorf("a VM that is rejected has no explicit guest to explain: %v\n%s", got.err, got.out)
	}
}
