package backend_test

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
)

const networkGuest = `
domain:
  memory: {guest: 1Gi}
  devices:
    tpm: {}
    disks: [{name: ceph, disk: {bus: virtio}}, {name: iscsi, disk: {bus: scsi}}, {name: nbd, disk: {bus: virtio}}]
    interfaces: [{name: default, masquerade: {}}]
networks: [{name: default, pod: {}}]
volumes: [{name: ceph, persistentVolumeClaim: {claimName: one}}, {name: iscsi, persistentVolumeClaim: {claimName: two}},
  {name: nbd, persistentVolumeClaim: {claimName: three}}]
`

func network(t *testing.T) render.Machine {
	m := backends.Machine(t, networkGuest)
	server := []backend.NetworkHost{{Name: "192.0.2.1", Port: "6789"}}
	m.Bindings.Volumes["ceph"] = backend.Volume{Format: "raw", Network: &backend.NetworkDisk{Protocol: "rbd", Name: "pool/image", Hosts: server, User: "kiln"}}
	m.Bindings.Volumes["iscsi"] = backend.Volume{Format: "raw",
		Network: &backend.NetworkDisk{Protocol: "iscsi", Name: "iqn.2024-01.example:disks/1", Hosts: server, User: "kiln"}}
	m.Bindings.Volumes["nbd"] = backend.Volume{Format: "raw", Encrypted: true,
		Network: &backend.NetworkDisk{Protocol: "nbd", Name: "export", Hosts: []backend.NetworkHost{{Socket: "/run/nbd"}}}}
	m.Bindings.NICs["default"] = backend.NIC{Kind: "bridge", Device: "br0", Guarded: true}
	m.Bindings.TPMEncrypted = true
	return m
}

// Each reference in the domain has its document, and the guest sees the same as of a file.
func TestSideDocuments(t *testing.T) {
	t.Parallel()
	out, errs := render.Domain(network(t))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	files, errs := render.Domain(backends.Machine(t, networkGuest))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if files.Record.Digest != out.Record.Digest {
		t.Error("a guest whose disks are on the network sees another machine")
	}
	text, err := out.Documents.Domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{"auth/ceph": "ceph", "auth/iscsi": "iscsi", "luks/nbd": "volume", "vtpm": "vtpm"}
	for _, secret := range out.Documents.Secrets {
		d := secret.Document
		if kinds[secret.Ref] != d.Usage.Type || d.Private != "yes" || d.Ephemeral != "yes" || strings.Count(text, d.UUID) != 1 {
			t.Errorf("secret '%s' is %+v, of usage '%s'; its UUID is %d times in the domain", secret.Ref, d, d.Usage.Type, strings.Count(text, d.UUID))
		}
		delete(kinds, secret.Ref)
	}
	if len(kinds) > 0 || len(out.Documents.Filters) != 1 {
		t.Errorf("secrets %v are missing; %d filters, want 1", kinds, len(out.Documents.Filters))
	}
	if filter := out.Documents.Filters[0]; !strings.Contains(text, `<filterref filter="`+filter.Name+`">`) {
		t.Errorf("no interface uses filter '%s'", filter.Name)
	}
	again, _ := render.Domain(network(t))
	if again.Documents.Secrets[0].Document.UUID != out.Documents.Secrets[0].Document.UUID {
		t.Error("a secret has another UUID at the next start")
	}
}

func TestNetworkDisksRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path string
		change     func(*backend.Bindings)
	}{
		{"a protocol that QEMU leaves to others", "spec.volumes[0]", func(b *backend.Bindings) { b.Volumes["ceph"].Network.Protocol = "ftp" }},
		{"a user of nbd", "spec.volumes[2]", func(b *backend.Bindings) { b.Volumes["nbd"].Network.User = "x" }},
		{"no server", "spec.volumes[2]", func(b *backend.Bindings) { b.Volumes["nbd"].Network.Hosts = nil }},
		{"a filter without a tap", "spec.domain.devices.interfaces[0]", func(b *backend.Bindings) { b.NICs["default"] = backend.NIC{Kind: "user", Guarded: true} }},
		{"an invalid address", "spec.domain.devices.interfaces[0]", func(b *backend.Bindings) {
			b.NICs["default"] = backend.NIC{Kind: "bridge", Device: "br0", Guarded: true, Addresses: []string{"here"}}
		}},
	} {
		m := network(t)
		c.change(&m.Bindings)
		if _, errs := render.Domain(m); len(errs) != 1 || errs[0].Field != c.path {
			t.Errorf("%s: errors %v, want one at '%s'", c.name, errs, c.path)
		}
	}
}
