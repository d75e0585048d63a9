package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// tpmGuest is a boot of a VM's guest with a TPM: the UID is another at each, the UUID of its firmware is not.
func tpmGuest(t *testing.T, uid types.UID, persistent bool) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := networkGuest(t)
	vmi.UID = uid
	vmi.Spec.Domain.Devices.Disks, vmi.Spec.Volumes = nil, nil
	vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: &persistent}
	vmi.Spec.Domain.Firmware = &v1.Firmware{UUID: "7f8f8c5e-0000-4000-8000-000000000001"}
	return vmi
}

const firstUID, secondUID = "0d9c2f0e-0000-4000-8000-000000000001", "0d9c2f0e-0000-4000-8000-000000000002"

// boots runs one boot and tells what libvirt says of it.
func boots(t *testing.T, l *Libvirt, host *Host, vmi *v1.VirtualMachineInstance) (backend.Documents, error) {
	t.Helper()
	bindings, errs := host.Bind(vmi)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	bindings.Serial, bindings.VNC, bindings.SerialLog = "", "", "" // their paths are too long for sockets
	off := false
	vmi.Spec.Domain.Devices.AutoattachGraphicsDevice = &off
	all := documents(t, vmi, bindings)
	values, err := host.secrets(vmi, all.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	return all, l.Run(all, values)
}

// TestEncryptedTPM: the key is made at the first start, found again at the next, needed by swtpm, and told to nobody.
func TestEncryptedTPM(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	l := connected(t, d)
	host := &Host{State: t.TempDir(), TPMKeys: t.TempDir()}
	file := filepath.Join(host.TPMKeys, "7f8f8c5e-0000-4000-8000-000000000001.key")
	var first []byte
	for _, uid := range []types.UID{firstUID, secondUID} {
		vmi := tpmGuest(t, uid, true)
		all, err := boots(t, l, host, vmi)
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
		if swtpm := arguments(t, "swtpm", "7f8f8c5e-0000-4000-8000-000000000001"); !strings.Contains(swtpm, "--key pwdfd=") {
			t.Errorf("swtpm runs without a key: '%s'", swtpm)
		}
		for where, text := range map[string]string{"the domain": active, "libvirt's log": d.Log(), "the arguments of QEMU": arguments(t, "qemu-system", "7f8f8c5e-0000-4000-8000-000000000001")} {
			if strings.Contains(text, string(key)) {
				t.Errorf("the key is in %s", where)
			}
		}
		if err := l.Remove(all.Domain.Name); err != nil {
			t.Fatal(err)
		}
		if err := host.Forget(vmi); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v; want it kept, for one user alone", info, err)
	}
	if err := os.WriteFile(file, []byte("another key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boots(t, l, host, tpmGuest(t, firstUID, true)); err == nil {
		t.Error("a state starts with another key than it was made with: it is not encrypted")
	}
}

func TestWhichTPMsAreEncrypted(t *testing.T) {
	t.Parallel()
	host := &Host{State: t.TempDir(), TPMKeys: t.TempDir(), TPMStates: t.TempDir()}
	encrypted := func(h *Host, vmi *v1.VirtualMachineInstance) bool {
		t.Helper()
		bindings, errs := h.Bind(vmi)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		return bindings.TPMEncrypted
	}
	if encrypted(&Host{State: host.State}, tpmGuest(t, firstUID, true)) {
		t.Error("the administrator named no folder for keys")
	}
	none := tpmGuest(t, firstUID, true)
	none.Spec.Domain.Devices.TPM = nil
	if encrypted(host, none) {
		t.Error("a guest without a TPM has no state")
	}
	brief := tpmGuest(t, firstUID, false)
	if !encrypted(host, brief) {
		t.Error("a state that ends with its guest is encrypted too")
	}
	if _, err := host.tpmSecret(brief); err != nil {
		t.Fatal(err)
	}
	if err := host.Forget(brief); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(host.TPMKeys); err != nil || len(left) > 0 {
		t.Errorf("%v, keys %v; want none to outlive its state", err, left)
	}
	if err := os.Mkdir(filepath.Join(host.TPMStates, "7f8f8c5e-0000-4000-8000-000000000001"), 0o700); err != nil {
		t.Fatal(err)
	}
	if encrypted(host, tpmGuest(t, firstUID, true)) {
		t.Error("a state that was made without a key does not start with one")
	}
	if _, err := host.tpmSecret(tpmGuest(t, firstUID, true)); err != nil { // an administrator's, say
		t.Fatal(err)
	}
	if !encrypted(host, tpmGuest(t, secondUID, true)) {
		t.Error("a state with a key is encrypted")
	}
	bad := tpmGuest(t, firstUID, true)
	bad.Spec.Domain.Firmware.UUID = "../../etc/shadow"
	if _, errs := host.Bind(bad); len(errs) != 1 || !strings.Contains(errs[0].Error(), "is not a UUID") {
		t.Errorf("a UUID that is a path: %v", errs)
	}
}
