package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// What is edited while the VM is there: each would give a new VM other hardware.
var (
	otherConfiguration = strings.NewReplacer("host-model", "Westmere\narchitectureConfiguration: {amd64: {machineType: pc-q35-7.1}}",
		"manufacturer: Kiln", "manufacturer: Changed", "Before", "After").Replace(hardwareConfiguration)
	otherSize   = strings.NewReplacer("guest: 2}", "guest: 1}", "guest: 1Gi", "guest: 1152Mi").Replace(hardwareSize)
	otherPreset = strings.NewReplacer("present: false", "present: true", "watchdog: {name: dog, i6300esb: {action: poweroff}}", "").Replace(hardwarePreset)
)

// probe is a VMI that says nothing of its CPU model, to see what admission gives it.
const probe = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: probe}, spec: {domain: {memory: {guest: 64Mi}, devices: {}}}}`

// configure changes the configuration and waits until all programs have read it.
func (h *hardware) configure() {
	h.Helper()
	known := h.readings()
	if err := h.on.Configure(otherConfiguration); err != nil {
		h.Fatal(err)
	}
	h.eventually("the webhook has the new configuration", func() bool {
		a := h.kubectl(probe, "create", "--dry-run=server", "-o", "jsonpath={.spec.domain.cpu.model}", "-f", "-")
		return a.err == nil && a.stdout == "Westmere"
	})
	h.eventually("the launcher has the new configuration", func() bool { return h.readings() > known })
}

// readings is how often the launcher says that it has read a configuration.
func (h *hardware) readings() (n int) {
	h.Helper()
	logs, err := filepath.Glob(filepath.Join(h.on.Dir, "launcher-*.log"))
	if err != nil || len(logs) == 0 {
		h.Fatalf("no log of the launcher: %v", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			h.Fatal(err)
		}
		n += strings.Count(string(text), "configuration read")
	}
	return n
}

// anew asks for the hardware that a new VM would get.
func (h *hardware) anew() {
	h.Helper()
	h.must(h.kubectl("", "annotate", "vm", "demo", "kilnvm.io/hardware=latest"))
	h.must(h.kiln("repin", "vm/demo", "--config", filepath.Join(h.on.Dir, "configuration.yaml")))
	text := h.restart("asking for the latest hardware")
	got := map[string]string{}
	for line := range strings.Lines(text) {
		fact, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[fact] = value
	}
	want := map[string]string{
		"possible":            "0-3", // the size
		"node 0 blocks":       "9",
		"watchdog identity":   "",   // the preset
		"cpu 0 model":         "44", // the configuration
		"dmi sys_vendor":      "Changed",
		"dmi product_version": "pc-q35-7.1",
	}
	for fact := range want {
		if strings.Contains(h.first, "\n"+fact+"="+want[fact]+"\n") {
			h.Errorf("'%s' was '%s' from the first: its change shows nothing", fact, want[fact])
		}
	}
	for fact := range got {
		if _, asked := want[fact]; !asked {
			delete(got, fact)
		}
	}
	delete(want, "watchdog identity")
	if diff := cmp.Diff(want, got); diff != "" {
		h.Errorf("the latest hardware is not what size, preset and configuration say now (-want +guest):\n%s", diff)
	}
	if !strings.Contains(h.first, "\nwatchdog identity=") || strings.Contains(h.first, "\nacpi HPET=") || !strings.Contains(text, "\nacpi HPET=") {
		h.Error("the preset's watchdog and timer are not what they were edited to")
	}
}
