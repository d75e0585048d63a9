package launch

import (
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

const lunOfClaim = `lun: {path: /dev/disk/by-path/pci-0000:05:00.0-fc-0x5006016844602198-lun-0, adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: 10000000c9831b4b}}`

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
	claim := lunOf(t, lunOfClaim)
	vmi := networkGuest(t)
	bindings := backend.AssumedBindings(vmi)
	bindings.Volumes["data"] = claim
	all := documents(t, vmi, bindings)
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
	var made notes
	for range 2 {
		if err := makeDevice(client, all.NodeDevices[0], &made); err != nil {
			t.Fatal(err)
		}
		if now := count(); now != before+1 {
			t.Errorf("%d adapters, want one more than %d", now, before)
		}
	}
	if want := noted(all).Adapters; !slices.Equal(made.Adapters, want) {
		t.Errorf("made are %q, want %q once", made.Adapters, want)
	}
	for range 2 {
		if err := removeDevices(client, noted(all)); err != nil {
			t.Fatal(err)
		}
		if now := count(); now != before {
			t.Errorf("%d adapters are left of %d", now, before)
		}
	}
}

// lunOf is the volume that a claim's file describes.
func lunOf(t *testing.T, file string) backend.Volume {
	t.Helper()
	volume, err := describedBy(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

func describedBy(t *testing.T, file string) (backend.Volume, error) {
	t.Helper()
	host, _ := testHost(t)
	if err := os.WriteFile(filepath.Join(host.Claims.dir, "shop", "data.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return host.claim("shop", "data")
}

func TestClaimsOfLUNs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, file, want string }{
		{"a disk that others have", "lun: {path: /dev/sda, adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: 10000000c9831b4b}}", "below /dev/disk"},
		{"out of the folder", "lun: {path: /dev/disk/../sda, adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: 10000000c9831b4b}}", "below /dev/disk"},
		{"no adapter", "lun: {path: /dev/disk/by-path/x}", "needs a parent"},
		{"a name that is none", "lun: {path: /dev/disk/by-path/x, adapter: {parent: scsi_host1, wwnn: 20000000c9831b4b, wwpn: host}}", "16 hexadecimal digits"},
		{"two at once", "network: {protocol: nbd}\n" + lunOfClaim, "either"},
		{"nothing", "encrypted: true", "either"},
	} {
		if volume, err := describedBy(t, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want '%s'", c.why, volume, err, c.want)
		}
	}
}

// Two LUNs behind one adapter need it once.
func TestAdapterOfTwoLUNs(t *testing.T) {
	t.Parallel()
	vmi := networkGuest(t)
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: "log", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
	vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: "log", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	bindings := backend.AssumedBindings(vmi)
	bindings.Volumes["data"], bindings.Volumes["log"] = lunOf(t, lunOfClaim), lunOf(t, strings.Replace(lunOfClaim, "lun-0", "lun-1", 1))
	all := documents(t, vmi, bindings)
	if len(all.NodeDevices) != 1 {
		t.Errorf("%d adapters, want one", len(all.NodeDevices))
	}
	if got := all.Domain.Devices.Disks[1].Source.Block; got == nil || !strings.HasSuffix(got.Dev, "lun-1") {
		t.Errorf("the second disk is of %+v", got)
	}
}

// An adapter that another domain uses too is not removed with the first of them.
func TestAdapterOfTwoDomains(t *testing.T) {
	t.Parallel()
	client := fibred(t)
	key := func(name string) notes { return notes{Adapters: []string{"10000000c9831b4b", name}} }
	var domains []rpc.Domain
	for _, name := range []string{"first", "second"} {
		note, err := xml.Marshal(noteElement{notes: key(name)})
		if err != nil {
			t.Fatal(err)
		}
		domain, err := client.DomainDefineXML("<domain type='test'><name>" + name + "</name><memory>1024</memory><os><type>hvm</type></os><metadata>" + string(note) + "</metadata></domain>")
		if err != nil {
			t.Fatal(err)
		}
		domains = append(domains, domain)
	}
	for _, domain := range domains {
		own, err := unshared(client, domain, key(domain.Name))
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
