package launch

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"
)

// The state of a TPM holds what disks were encrypted with, and lies on this machine. With --tpm-keys it is encrypted by a key of its own,
// made at the first start. Keys of states that outlive the guest are named by its UUID, as libvirt names the state; others by the
// UID of the VMI, with which they go.

// tpmStates is where libvirt keeps the state of TPMs, by the UUID of the guest.
const tpmStates = "/var/lib/libvirt/swtpm"

// encryptsTPM tells whether a guest's TPM has a key or is to get one. A state that was made without a key stays without: swtpm does not
// start with a key on it, and made anew the guest would have lost what it holds.
func (h *Host) encryptsTPM(vmi *v1.VirtualMachineInstance) (bool, error) {
	if h.TPMKeys == "" || vmi.Spec.Domain.Devices.TPM == nil {
		return false, nil
	}
	file, err := h.tpmKey(vmi)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	_, err = os.Stat(filepath.Join(cmp.Or(h.TPMStates, tpmStates), guestUUID(vmi)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// tpmKey is the file of a TPM's key.
func (h *Host) tpmKey(vmi *v1.VirtualMachineInstance) (string, error) {
	name := string(vmi.UID)
	if set(vmi.Spec.Domain.Devices.TPM.Persistent) {
		name = guestUUID(vmi)
	}
	if _, err := parseUUID(name); err != nil {
		return "", fmt.Errorf("'%s' is not a UUID", name) // and might be a path
	}
	return filepath.Join(h.TPMKeys, name+".key"), nil
}

// guestUUID is that of the firmware, which a controller has given to the guest of a VM. A bare guest's follows from its UID.
func guestUUID(vmi *v1.VirtualMachineInstance) string {
	if f := vmi.Spec.Domain.Firmware; f != nil && f.UUID != "" {
		return string(f.UUID)
	}
	return string(vmi.UID)
}

func set(flag *bool) bool { return flag != nil && *flag }

// tpmSecret is the key of a guest's TPM, made if there is none. What it holds is told to nobody but libvirt.
func (h *Host) tpmSecret(vmi *v1.VirtualMachineInstance) ([]byte, error) {
	file, err := h.tpmKey(vmi)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(file); err == nil {
			key, err = os.ReadFile(file)
		}
	}
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("the key of the TPM in '%s' is empty", file)
	}
	return key, err
}

// makeKey leaves a whole key or none, and never replaces one: a link fails where a file is, and is made when all is on the disk.
func makeKey(file string) error {
	draft, err := os.CreateTemp(filepath.Dir(file), ".draft-") // for its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(rand.Text()) // 128 bits
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// forgetTPM removes a key with the state that it was for, which libvirt removes with the domain.
func (h *Host) forgetTPM(vmi *v1.VirtualMachineInstance) error {
	if h.TPMKeys == "" {
		return nil
	}
	if _, err := parseUUID(string(vmi.UID)); err != nil {
		return nil // it never got a key
	}
	err := os.Remove(filepath.Join(h.TPMKeys, string(vmi.UID)+".key"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
