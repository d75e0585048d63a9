package hypervisor

import (
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
)

// fibred is a libvirt with a Fibre Channel card, as its test driver pretends one: this machine has none.
func fibred(t *testing.T) *rpc.Libvirt {
	t.Helper()
	uri, err := url.Parse(strings.Replace(libvirt.Start(t).URI, "qemu+unix:///system", "test+unix:///default", 1))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rpc.ConnectToURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect() })
	return client
}

// TestAdapters: the adapter of a claim's LUN is made once, found again by its port, and removed as often as is asked; the card stays.
func TestAdapters(t *testing.T) {
	t.Parallel()
	claim := backend.Volume{Path: "/dev/disk/by-path/pci-0000:05:00.0-fc-0x5006016844602198-lun-0", Format: "raw", Block: true,
		Adapter: &backend.HostAdapter{Parent: "scsi_host1", WWNN: "20000000c9831b4b", WWPN: "10000000c9831b4b"}}
	vmi := explicit.WithClaim(t)
	bindings := backend.AssumedBindings(vmi)
	bindings.Volumes["data"] = claim
	all := explicit.Documents(t, vmi, bindings)
	if len(all.NodeDevices) != 1 {
		t.Fatalf("%d node devices, want the adapter", len(all.NodeDevices))
	}
	client := fibred(t)
	count := func() int {
		devices, _, err := client.ConnectListAllNodeDevices(1, uint32(rpc.ConnectListNodeDevicesCapFcHost))
		if err != nil {
			t.Fatal(err)
		}
		return len(devices)
	}
	before := count()
	var made inventory
	for range 2 {
		if err := makeDevice(client, all.NodeDevices[0], &made); err != nil {
			t.Fatal(err)
		}
		if now := count(); now != before+1 {
			t.Errorf("%d adapters, want one more than %d", now, before)
		}
	}
	if want := inventoryOf(all).Adapters; !slices.Equal(made.Adapters, want) {
		t.Errorf("made are %q, want %q once", made.Adapters, want)
	}
	for range 2 {
		if err := removeDevices(client, inventoryOf(all)); err != nil {
			t.Fatal(err)
		}
		if now := count(); now != before {
			t.Errorf("%d adapters are left of %d", now, before)
		}
	}
}

// An adapter that another domain uses too is not removed with the first of them.
func TestAdapterOfTwoDomains(t *testing.T) {
	t.Parallel()
	client := fibred(t)
	key := func(name string) inventory { return inventory{Adapters: []string{"10000000c9831b4b", name}} }
	var domains []rpc.Domain
	for _, name := range []string{"first", "second"} {
		metadata, err := xml.Marshal(inventoryElement{inventory: key(name)})
		if err != nil {
			t.Fatal(err)
		}
		domain, err := client.DomainDefineXML("<domain type='test'><name>" + name + "</name><memory>1024</memory><os><type>hvm</type></os>" +
			"<metadata>" + string(metadata) + "</metadata></domain>")
		if err != nil {
			t.Fatal(err)
		}
		domains = append(domains, domain)
	}
	for _, domain := range domains {
		own, err := withoutShared(client, domain, key(domain.Name))
		want := []string{domain.Name}
		if domain.Name == "second" {
			want = []string{"10000000c9831b4b", domain.Name} // the first is gone by then
		}
		if err != nil || !slices.Equal(own.Adapters, want) {
			t.Errorf("with '%s' go %q, %v; want %q", domain.Name, own.Adapters, err, want)
		}
		if err := client.DomainUndefine(domain); err != nil {
			t.Fatal(err)
		}
	}
}
