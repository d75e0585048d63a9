package hostresources

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/explicit"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// tpmGuest is a boot of a VM's guest with a TPM: the UID is another at each, the identity and the UUID of its firmware are not.
func tpmGuest(t *testing.T, uid types.UID, persistent bool) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := explicit.WithClaim(t)
	vmi.UID = uid
	vmi.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed"}
	vmi.Spec.Domain.Devices.Disks, vmi.Spec.Volumes = nil, nil
	vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: &persistent}
	vmi.Spec.Domain.Firmware = &v1.Firmware{UUID: tpmUUID}
	return vmi
}

const (
	firstUID, secondUID = "0d9c2f0e-0000-4000-8000-000000000001", "0d9c2f0e-0000-4000-8000-000000000002"
	tpmUUID             = "7f8f8c5e-0000-4000-8000-000000000001"
	// seedDigest is 'printf %s seed | sha256sum'.
	seedDigest = "19b25856e1c150ca834cffc8b59b23adbd0ec0389e58eb22b3b64768098d002b"
)

// stealing is what another tenant writes who knows all of a guest that may be known.
func stealing(t *testing.T, persistent bool) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := tpmGuest(t, secondUID, persistent)
	vmi.Namespace, vmi.Name = "attacker", "thief"
	return vmi
}

// boots starts a domain once and returns libvirt's error.
func boots(t *testing.T, d *libvirt.Daemon, host *BareMachine, vmi *v1.VirtualMachineInstance) (backend.Documents, error) {
	t.Helper()
	client, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect()
	facts, err := connected(t, d).Capabilities(t.Context(), "here", hypervisor.KVMNever)
	if err != nil {
		t.Fatal(err)
	}
	bound := bound(t, host, vmi)
	bound.Serial, bound.VNC, bound.SerialLog = "", "", "" // their paths are too long for sockets
	off := false
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &off
	machine := backend.Assumed("amd64")
	machine.VirtTypes, machine.LibvirtVersion = []string{"qemu"}, facts.LibvirtVersion
	rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: config.Default().Frontend, Host: machine, Bindings: bound.Bindings})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	values, err := bound.Secrets(rendered.Documents.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Documents, connected(t, d).Start(t.Context(), guestOf(vmi, rendered.Documents, values))
}

// ends ends a boot.
func ends(t *testing.T, d *libvirt.Daemon, host *BareMachine, vmi *v1.VirtualMachineInstance) {
	t.Helper()
	if err := connected(t, d).Remove(t.Context(), ownerOf(vmi)); err != nil {
		t.Fatal(err)
	}
	if err := host.Forget(vmi); err != nil {
		t.Fatal(err)
	}
}

// TestEncryptedTPM: the key is created at the first start, reused at the next, needed by swtpm, and in no document or log.
func TestEncryptedTPM(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	host := &BareMachine{State: t.TempDir(), TPMKeys: t.TempDir(), TPMStates: d.TPMStates()}
	file := filepath.Join(host.TPMKeys, "shop."+seedDigest+".key")
	const uuid = "7f8f8c5e-0000-4000-8000-000000000002" // by which the processes of this test are found
	var first []byte
	for _, uid := range []types.UID{firstUID, secondUID} {
		vmi := tpmGuest(t, uid, true)
		vmi.Spec.Domain.Firmware.UUID = uuid
		all, err := boots(t, d, host, vmi)
		if err != nil {
			t.Fatalf("guest '%s': %v", uid, err)
		}
		key, err := os.ReadFile(file)
		if err != nil || len(key) < 20 || first != nil && !bytes.Equal(first, key) {
			t.Fatalf("key of %d bytes, %v; want the same at each boot", len(key), err)
		}
		first = key
		active, err := d.ActiveXML(all.Domain.Name)
		if err != nil || !strings.Contains(active, "<encryption secret='"+all.Secrets[0].Document.UUID+"'/>") {
			t.Errorf("%v, or no encryption in\n%s", err, active)
		}
		if swtpm := arguments(t, "swtpm", uuid); !strings.Contains(swtpm, "--key pwdfd=") {
			t.Errorf("swtpm runs without a key: '%s'", swtpm)
		}
		for where, text := range map[string]string{"the domain": active, "libvirt's log": d.Log(), "the arguments of QEMU": arguments(t, "qemu-system", uuid)} {
			if strings.Contains(text, string(key)) {
				t.Errorf("the key is in %s", where)
			}
		}
		ends(t, d, host, vmi)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v; want it kept, for one user alone", info, err)
	}
	if err := os.WriteFile(file, []byte("another key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boots(t, d, host, tpmGuest(t, firstUID, true)); err == nil {
		t.Error("a state starts with another key than it was made with: it is not encrypted")
	}
}

// TestTPMOfAnotherTenant: who writes another tenant's firmware UUID and identity into a guest of his own gets a TPM of his own. He neither keeps
// the other's guest from starting nor takes anything from it, whether it runs or not, whether his own TPM is persistent or not.
func TestTPMOfAnotherTenant(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	host := &BareMachine{State: t.TempDir(), TPMKeys: t.TempDir(), TPMStates: d.TPMStates()}
	start := func(vmi *v1.VirtualMachineInstance) {
		t.Helper()
		if _, err := boots(t, d, host, vmi); err != nil {
			t.Fatalf("'%s/%s': %v", vmi.Namespace, vmi.Name, err)
		}
	}
	// Planted before the victim's first boot.
	start(stealing(t, true))
	ends(t, d, host, stealing(t, true))
	victim, own := tpmGuest(t, firstUID, true), filepath.Join("kiln", "shop."+seedDigest)
	start(victim)
	secrets, _ := explicit.SideDocuments(t, d)
	for _, persistent := range []bool{true, false} {
		if _, err := boots(t, d, host, stealing(t, persistent)); err == nil || !strings.Contains(err.Error(), "in use by another domain") {
			t.Errorf("beside the victim: error '%v', want libvirt's about the UUID", err)
		}
	}
	if now, _ := explicit.SideDocuments(t, d); now != secrets || secrets != 1 {
		t.Errorf("libvirt has %d secrets of the victim's %d", now, secrets)
	}
	if to, err := os.Readlink(filepath.Join(host.TPMStates, tpmUUID)); err != nil || to != own {
		t.Errorf("the TPM of the running victim writes to '%s', %v; want '%s'", to, err, own)
	}
	ends(t, d, host, victim)
	before := stateOf(t, host, own)
	for _, persistent := range []bool{true, false} {
		start(stealing(t, persistent))
		if to, err := os.Readlink(filepath.Join(host.TPMStates, tpmUUID)); err != nil || to == own {
			t.Errorf("the thief's TPM is of '%s', %v", to, err)
		}
		ends(t, d, host, stealing(t, persistent))
	}
	if diff := cmp.Diff(before, stateOf(t, host, own)); diff != "" {
		t.Errorf("state of the victim (-before +after the thief):\n%s", diff)
	}
	start(victim) // swtpm starts with the key that the state was made with alone
	ends(t, d, host, victim)
	want := []string{"attacker." + seedDigest, "shop." + seedDigest}
	if diff := cmp.Diff(want, entries(t, filepath.Join(host.TPMStates, "kiln"))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{want[0] + ".key", want[1] + ".key"}, entries(t, host.TPMKeys)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"kiln"}, entries(t, host.TPMStates)); diff != "" {
		t.Errorf("libvirt's folder (-want +got):\n%s", diff)
	}
}

// stateOf is the content of a TPM's state.
func stateOf(t *testing.T, host *BareMachine, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(host.TPMStates, name, "tpm2", "tpm2-00.permall"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// TestUnknownTPMState: a state at the path of the VMI's firmware UUID has an unknown owner. The VMI does not get it, and the
// error says what to do.
func TestUnknownTPMState(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	host := &BareMachine{State: t.TempDir(), TPMStates: d.TPMStates()}
	unknown := filepath.Join(host.TPMStates, tpmUUID, "tpm2", "tpm2-00.permall")
	if err := os.MkdirAll(filepath.Dir(unknown), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unknown, []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	vmi := tpmGuest(t, firstUID, true)
	want := fmt.Sprintf("from '%s' to '%s'", filepath.Join(host.TPMStates, tpmUUID), filepath.Join(host.TPMStates, "kiln", "shop."+seedDigest))
	if _, err := boots(t, d, host, vmi); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error '%v', want '%s'", err, want)
	}
	if raw, err := os.ReadFile(unknown); err != nil || string(raw) != "state" {
		t.Errorf("the state is '%s', %v", raw, err)
	}
	if _, err := d.State(ownerOf(vmi).Domain()); err == nil {
		t.Error("the domain of the refused start stays defined")
	}
}
