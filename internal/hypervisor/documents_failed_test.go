package hypervisor

import (
	"slices"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
)

const (
	sharedUUID  = "7f8f8c5e-0000-4000-8000-000000000001"
	secretValue = "correct-horse-battery-staple"
)

// rbdDisk is a disk of the network, which no test connects to.
func rbdDisk() *backend.NetworkDisk {
	return &backend.NetworkDisk{Protocol: "rbd", Name: "pool/data", User: "kiln", Hosts: []backend.NetworkHost{{Name: "127.0.0.1", Port: "6789"}}}
}

// TestNothingOfAFailedStartStays: a start that fails removes the filters, secrets and devices that it created.
func TestNothingOfAFailedStartStays(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	vmi := explicit.WithClaim(t)
	vmi.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "vgpu", DeviceName: "example.com/vgpu"}}
	bindings := backend.AssumedBindings(vmi)
	bindings.Volumes["data"] = backend.Volume{Format: "raw", Network: rbdDisk()}
	bindings.NICs["default"] = backend.NIC{Kind: "bridge", Device: "no-such-bridge", Guarded: true, Addresses: []string{"192.0.2.7"}}
	bindings.HostDevs["vgpu"] = backend.HostDev{
		Type: "mdev", Address: "5d307ca9-b3ef-428c-8861-06e72d69f223", Parent: "pci_0000_ff_1f_7", MediatedType: "nvidia-35",
	}
	all := explicit.Documents(t, vmi, bindings)
	if len(all.Secrets) != 1 || len(all.Filters) != 1 || len(all.NodeDevices) != 1 {
		t.Fatalf("%d secrets, %d filters, %d node devices, want one each", len(all.Secrets), len(all.Filters), len(all.NodeDevices))
	}
	for _, step := range []struct{ want string }{{"no value for secret 'auth/data'"}, {"cannot create mediated device"}} {
		values := map[string][]byte{}
		if step.want != "no value for secret 'auth/data'" {
			values["auth/data"] = []byte(secretValue)
		}
		err := l.Start(t.Context(), guestOf(vmi, all, values))
		if err == nil || !strings.Contains(err.Error(), step.want) || strings.Contains(err.Error(), secretValue) {
			t.Errorf("error '%v', want '%s'", err, step.want)
		}
		if secrets, filters := explicit.SideDocuments(t, d); secrets+filters > 0 {
			t.Errorf("%d secrets and %d filters stay", secrets, filters)
		}
	}
	// Without the card's device the start fails for want of the bridge.
	vmi.Spec.Domain.Devices.GPUs = nil
	delete(bindings.HostDevs, "vgpu")
	headless := false
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice, bindings.Serial = &headless, ""
	all = explicit.Documents(t, vmi, bindings)
	err := l.Start(t.Context(), guestOf(vmi, all, map[string][]byte{"auth/data": []byte(secretValue)}))
	if err == nil || !strings.Contains(err.Error(), "no-such-bridge") {
		t.Errorf("error '%v', want one about the bridge", err)
	}
	if secrets, filters := explicit.SideDocuments(t, d); secrets+filters > 0 {
		t.Errorf("%d secrets and %d filters stay", secrets, filters)
	}
	if state, err := d.State(all.Domain.Name); err == nil {
		t.Errorf("the domain stays, '%s'", state)
	}
}

// TestNothingOfOthersGoesWithAFailedStart: the side documents of a domain stay when another VMI with its firmware UUID fails to start.
func TestNothingOfOthersGoesWithAFailedStart(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	guarded := func(vmi *v1.VirtualMachineInstance) backend.Documents {
		bindings := backend.AssumedBindings(vmi)
		bindings.Volumes["data"] = backend.Volume{Format: "raw", Encrypted: true, Network: rbdDisk()}
		bindings.NICs["default"] = backend.NIC{Kind: "bridge", Device: "no-such-bridge", Guarded: true, Addresses: []string{"192.0.2.7"}}
		return explicit.Documents(t, vmi, bindings)
	}
	victim := explicit.WithClaim(t)
	victim.Spec.Domain.Firmware = &v1.Firmware{UUID: sharedUUID}
	theirs := guarded(victim)
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	values := map[string][]byte{"auth/data": []byte(secretValue), "luks/data": []byte(secretValue)}
	if _, err := defineDomain(client, guestOf(victim, theirs, values)); err != nil {
		t.Fatal(err)
	}
	if _, err := createSideDocuments(client, theirs, values); err != nil {
		t.Fatal(err)
	}
	before := sideDocuments(t, client)
	evil := victim.DeepCopy()
	evil.Namespace, evil.Name, evil.UID = "attacker", "thief", "0d9c2f0e-0000-4000-8000-000000000002"
	evil.Spec.Domain.Devices.Interfaces[0].MacAddress = "02:00:00:00:00:99"
	all := guarded(evil)
	for range 2 {
		if err := l.Start(t.Context(), guestOf(evil, all, values)); err == nil || !strings.Contains(err.Error(), sharedUUID) {
			t.Errorf("error '%v', want one about the UUID", err)
		}
		if diff := cmp.Diff(before, sideDocuments(t, client)); diff != "" {
			t.Errorf("secrets and filters (-before +after):\n%s", diff)
		}
	}
	if err := l.Remove(t.Context(), ownerOf(evil)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, sideDocuments(t, client)); diff != "" {
		t.Errorf("secrets and filters (-before +after the other was removed):\n%s", diff)
	}
}

// sideDocuments returns the XML of the secrets and of Kiln's network filters.
func sideDocuments(t *testing.T, client *rpc.Libvirt) (out []string) {
	t.Helper()
	secrets, _, err := client.ConnectListAllSecrets(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		text, err := client.SecretGetXMLDesc(secret, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	filters, _, err := client.ConnectListAllNwfilters(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range filters {
		if !strings.HasPrefix(filter.Name, "kiln-") {
			continue
		}
		text, err := client.NwfilterGetXMLDesc(filter, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	if len(out) != 3 {
		t.Fatalf("%d secrets and filters, want 3", len(out))
	}
	slices.Sort(out)
	return out
}
