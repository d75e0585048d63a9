package frontend_test

import (
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// TestPhysicalAddresses: a CPU model reaches the memory that its guest may get.
func TestPhysicalAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arch, model, memory string
		bits                uint
	}{
		{"amd64", "kvm64", "{guest: 2Gi}", 0},
		{"amd64", "kvm64", "{guest: 240Gi, maxGuest: 960Gi}", 0},
		{"amd64", "kvm64", "{guest: 248Gi, maxGuest: 992Gi}", 46},
		{"amd64", "kvm64", "{guest: 2Gi, maxGuest: 1Ti}", 46},
		{"amd64", "host-model", "{guest: 2Ti}", 46},
		{"amd64", "kvm64", "{guest: 2Gi, maxGuest: 64Ti}", 47},
		{"amd64", "host-passthrough", "{guest: 2Gi, maxGuest: 4Ti}", 0},
		{"arm64", "max", "{guest: 2Gi, maxGuest: 4Ti}", 0},
	} {
		dom := rendered(t, with(t, c.arch, "addresses", "spec: {domain: {cpu: {model: "+c.model+", cores: 1}, memory: "+c.memory+"}}"))
		bits := uint(0)
		if dom.CPU.MaxPhysAddr != nil {
			bits = dom.CPU.MaxPhysAddr.Bits
		}
		if bits != c.bits {
			t.Errorf("%s %s with memory %s: %d bits, want %d", c.arch, c.model, c.memory, bits, c.bits)
		}
	}
}

// TestQEMUStartsWithMuchMemory: QEMU starts a guest that may get 1 TiB, and does not without the wider addresses.
func TestQEMUStartsWithMuchMemory(t *testing.T) {
	t.Parallel()
	daemon, client := connectedDaemon(t)
	for name, change := range map[string]func(*libvirtxml.Domain){
		"wide": func(*libvirtxml.Domain) {}, "narrow": func(dom *libvirtxml.Domain) { dom.CPU.MaxPhysAddr = nil },
	} {
		dom := rendered(t, with(t, "amd64", name, "spec: {domain: {cpu: {model: qemu64, cores: 1}, memory: {guest: 2Gi, maxGuest: 1Ti}}}"))
		complete(dom)
		change(dom)
		if _, err := daemon.Define(printed(t, dom)); err != nil {
			t.Fatal(err)
		}
		domain, err := client.DomainLookupByName(dom.Name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.DomainCreateWithFlags(domain, uint32(rpc.DomainStartPaused))
		if (err == nil) != (name == "wide") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := daemon.Destroy(dom.Name); err != nil {
				t.Error(err)
			}
		}
	}
}
