package frontends_test

import (
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/test/frontends"
	"libvirt.org/go/libvirtxml"
)

// TestQEMUStartsWithMuchMemory: QEMU starts a guest that may get 1 TiB, and does not without the wider addresses.
func TestQEMUStartsWithMuchMemory(t *testing.T) {
	t.Parallel()
	daemon, client := connectedDaemon(t)
	for name, change := range map[string]func(*libvirtxml.Domain){
		"wide": func(*libvirtxml.Domain) {}, "narrow": func(dom *libvirtxml.Domain) { dom.CPU.MaxPhysAddr = nil },
	} {
		dom := frontends.Rendered(t, frontends.With(t, "amd64", name, "spec: {domain: {cpu: {model: qemu64, cores: 1}, memory: {guest: 2Gi, maxGuest: 1Ti}}}"))
		frontends.AddSources(dom)
		change(dom)
		if _, err := daemon.Define(frontends.Printed(t, dom)); err != nil {
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
