package backend_test

import (
	"slices"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"k8s.io/apimachinery/pkg/types"
)

// TestNamesOnTheHost: what is made on a host for a guest has names of its VMI's UID. They are the same at a repeated start, and another VMI
// never has them, whatever its tenant writes.
func TestNamesOnTheHost(t *testing.T) {
	t.Parallel()
	names := func(namespace string, uid types.UID) []string {
		t.Helper()
		m := backends.Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, firmware: {uuid: 7f8f8c5e-0000-4000-8000-000000000001}, "+
			"devices: {tpm: {persistent: true}, disks: [{name: a, disk: {bus: virtio}}], interfaces: [{name: default, bridge: {}, macAddress: '02:00:00:00:00:01'}]}}, "+
			"networks: [{name: default, pod: {}}], volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}")
		m.VMI.Namespace, m.VMI.UID = namespace, uid
		m.VMI.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed"}
		m.Bindings.TPMEncrypted = true
		m.Bindings.Volumes["a"] = backend.Volume{Format: "raw", Encrypted: true,
			Network: &backend.NetworkDisk{Protocol: "rbd", Name: "pool/a", User: "kiln", Hosts: []backend.NetworkHost{{Name: "ceph.example"}}}}
		m.Bindings.NICs["default"] = backend.NIC{Kind: "bridge", Device: "br0", Guarded: true}
		result, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		var out []string
		for _, secret := range result.Documents.Secrets {
			out = append(out, secret.Document.UUID)
		}
		for _, filter := range result.Documents.Filters {
			out = append(out, filter.UUID, filter.Name)
		}
		// The domain must find what is defined for it.
		dom := result.Documents.Domain.Devices
		disk := dom.Disks[0].Source
		used := []string{disk.Network.Auth.Secret.UUID, disk.Encryption.Secrets[0].UUID, dom.TPMs[0].Backend.Emulator.Encryption.Secret,
			dom.Interfaces[0].FilterRef.Filter}
		for _, name := range used {
			if !slices.Contains(out, name) {
				t.Errorf("the domain uses '%s', defined are %q", name, out)
			}
		}
		if len(out) != 5 {
			t.Fatalf("%q, want three secrets, and a filter with its UUID", out)
		}
		return out
	}
	const first, second = "0d9c2f0e-0000-4000-8000-000000000001", "0d9c2f0e-0000-4000-8000-000000000002"
	own := names("shop", first)
	if again := names("shop", first); !slices.Equal(own, again) {
		t.Errorf("a repeated start gives %q, was %q", again, own)
	}
	for why, others := range map[string][]string{
		"the successor of the VMI":        names("shop", second),
		"another tenant's VMI":            names("attacker", second),
		"rendered offline":                names("shop", ""),
		"rendered offline for a stranger": names("attacker", ""),
	} {
		for _, name := range others {
			if slices.Contains(own, name) {
				t.Errorf("%s has '%s' too", why, name)
			}
		}
	}
	if offline := names("shop", ""); !slices.Equal(offline, names("shop", "")) || slices.Equal(offline, names("attacker", "")) {
		t.Errorf("offline the names are %q", offline)
	}
}

// TestKeyInAPod: a libvirt of an unprivileged user gets the key of a TPM that the pod has, also where a HostProfile names a secret of the node. The guest
// sees the same TPM as without a key.
func TestKeyInAPod(t *testing.T) {
	t.Parallel()
	var digests []string
	for _, encrypted := range []bool{false, true} {
		m := backends.Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {tpm: {persistent: true}}}}")
		policy, _ := backend.InSession(v1alpha1.HostPolicy{Security: &v1alpha1.SecurityPolicy{VTPMSecret: "5d307ca9-b3ef-428c-8861-06e72d69f223"}})
		m.Policy, m.Bindings.TPMEncrypted = policy, encrypted
		result, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		digests = append(digests, result.Record.Digest)
		used, secrets := result.Documents.Domain.Devices.TPMs[0].Backend.Emulator.Encryption, result.Documents.Secrets
		if encrypted != (used != nil && len(secrets) == 1 && secrets[0].Ref == backend.TPM && secrets[0].Document.UUID == used.Secret) {
			t.Errorf("encrypted is %t: the domain has %v, the secrets are %v", encrypted, used, secrets)
		}
	}
	if digests[0] != digests[1] {
		t.Error("the guest sees another machine")
	}
}

// TestPlaceOfTPMState: a libvirt that can be told where the state lies is told; for an older one the host must know.
func TestPlaceOfTPMState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, version, state, tpm string
		domain, host             string
	}{
		{"Debian 12's libvirt", "9.0.0", "/states/a/tpm2", "{}", "", "/states/a/tpm2"},
		{"the first that can be told", "10.10.0", "/states/a/tpm2", "{}", "/states/a/tpm2", ""},
		{"the last that cannot", "10.9.0", "/states/a/tpm2", "{}", "", "/states/a/tpm2"},
		{"persistent or not", "11.0.0", "/states/a/tpm2", "{persistent: true}", "/states/a/tpm2", ""},
		{"nothing is bound", "11.0.0", "", "{}", "", ""},
		{"nothing is bound on an old one", "9.0.0", "", "{}", "", ""},
		{"no TPM", "9.0.0", "/states/a/tpm2", "{enabled: false}", "", ""},
	} {
		m := backends.Machine(t, "{architecture: amd64, domain: {cpu: {cores: 1}, memory: {guest: 1Gi}, devices: {tpm: "+c.tpm+"}}}")
		m.Host.LibvirtVersion, m.Host.QEMUVersion, m.Bindings.TPMState = c.version, "9.0.0", c.state
		result, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.why, errs.ToAggregate())
			continue
		}
		inDomain := ""
		for _, tpm := range result.Documents.Domain.Devices.TPMs {
			if source := tpm.Backend.Emulator.Source; source != nil {
				inDomain = source.Dir.Path
			}
		}
		if inDomain != c.domain || result.Documents.TPMState != c.host {
			t.Errorf("%s: TPM state at '%s' in the domain and '%s' in the documents; want '%s' and '%s'", c.why, inDomain, result.Documents.TPMState, c.domain, c.host)
		}
	}
}
