package hypervisor

import (
	"testing"

	"libvirt.org/go/libvirtxml"
)

// TestPins: a CPU that any thread of a domain is pinned to is not free for a VMI with dedicatedCpuPlacement.
func TestPins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tune, want string }{
		"a domain that runs anywhere": {"", ""},
		"limits take no CPU":          {"<shares>512</shares>", ""},
		"vCPUs, IO threads and emulator count": {`<vcpupin vcpu="0" cpuset="4"/><vcpupin vcpu="1" cpuset="6"/>` +
			`<emulatorpin cpuset="1"/><iothreadpin iothread="1" cpuset="8-9"/>`, "1,4,6,8-9"},
		"a CPU that two threads share counts once": {`<vcpupin vcpu="0" cpuset="4"/><iothreadpin iothread="1" cpuset="4"/>`, "4"},
	} {
		var domain libvirtxml.Domain
		if err := domain.Unmarshal("<domain><cputune>" + c.tune + "</cputune></domain>"); err != nil {
			t.Fatal(err)
		}
		if got := Pins(domain.CPUTune).String(); got != c.want {
			t.Errorf("%s: '%s', want '%s'", name, got, c.want)
		}
	}
	if got := Pins(nil).String(); got != "" {
		t.Errorf("no tuning: '%s'", got)
	}
}
