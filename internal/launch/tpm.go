package launch

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	v1 "kubevirt.io/api/core/v1"
)

// The state of a TPM holds what disks were encrypted with, and lies on this machine. With --tpm-keys it is encrypted by a key of its own,
// made at the first start.
//
// State and key that outlive the guest are named by its namespace and identity, others by the UID of the VMI, with which they go. Never
// by the UUID of the firmware: its tenant writes that, and could write the one of another tenant's guest. A libvirt before 10.10 keeps
// states by just that UUID, and cannot be told otherwise: there a link leads from its place to ours while the guest's domain is defined. libvirt
// has one domain of a UUID at most, so that the link has one owner.

// tpmStates is where libvirt keeps the state of TPMs, by the UUID of the guest.
const tpmStates = "/var/lib/libvirt/swtpm"

// ownStates is our folder in libvirt's, below which security drivers let swtpm work.
const ownStates = "kiln"

// tpmName names state and key of a guest's TPM. The first form has a dot, which no UID and no namespace has.
func tpmName(vmi *v1.VirtualMachineInstance) (string, error) {
	if tpm := vmi.Spec.Domain.Devices.TPM; tpm != nil && set(tpm.Persistent) {
		identity := cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID))
		return fmt.Sprintf("%s.%x", vmi.Namespace, sha256.Sum256([]byte(identity))), nil // an identity is any text
	}
	if _, err := parseUUID(string(vmi.UID)); err != nil {
		return "", fmt.Errorf("UID '%s' is not a UUID", vmi.UID) // and might be a path
	}
	return string(vmi.UID), nil
}

func set(flag *bool) bool { return flag != nil && *flag }

// bindTPM finds state and key of a guest's TPM. Nothing is made yet.
func (h *Host) bindTPM(vmi *v1.VirtualMachineInstance, bindings *backend.Bindings) error {
	if vmi.Spec.Domain.Devices.TPM == nil {
		return nil
	}
	name, err := tpmName(vmi)
	if err != nil {
		return err
	}
	bindings.TPMState = h.tpmState(name)
	bindings.TPMEncrypted, err = h.encryptsTPM(name)
	return err
}

// tpmState is the folder of a TPM's state, as libvirt would name it in a folder of the guest's own.
func (h *Host) tpmState(name string) string {
	return filepath.Join(cmp.Or(h.TPMStates, tpmStates), ownStates, name, "tpm2")
}

func (h *Host) tpmKey(name string) string { return filepath.Join(h.TPMKeys, name+".key") }

// encryptsTPM tells whether a guest's TPM has a key or is to get one. A state that was made without a key stays without: swtpm does not
// start with a key on it, and made anew the guest would have lost what it holds.
func (h *Host) encryptsTPM(name string) (bool, error) {
	if h.TPMKeys == "" {
		return false, nil
	}
	if there, err := exists(h.tpmKey(name)); err != nil || there {
		return there, err
	}
	there, err := exists(h.tpmState(name))
	return !there && err == nil, err
}

func exists(file string) (bool, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tpmSecret is the key of a guest's TPM, made if there is none. What it holds is told to nobody but libvirt.
func (h *Host) tpmSecret(vmi *v1.VirtualMachineInstance) ([]byte, error) {
	name, err := tpmName(vmi)
	if err != nil {
		return nil, err
	}
	file := h.tpmKey(name)
	err = once(file, func(draft string) error {
		return os.WriteFile(draft, []byte(rand.Text()), 0o600) // 128 bits
	})
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(file)
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("the key of the TPM in '%s' is empty", file)
	}
	return key, err
}

// forgetTPM removes key and state that go with their VMI.
func (h *Host) forgetTPM(vmi *v1.VirtualMachineInstance) error {
	name := string(vmi.UID)
	if _, err := parseUUID(name); err != nil {
		return nil // it never got any
	}
	if err := os.RemoveAll(filepath.Dir(h.tpmState(name))); err != nil || h.TPMKeys == "" {
		return err
	}
	if err := os.Remove(h.tpmKey(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stateLink is the place that a libvirt which cannot be told looks at for the TPM of a guest, and where that is to lead.
func stateLink(note tpmNote) (link, target string, err error) {
	uuid, err := parseUUID(note.UUID) // libvirt writes it its own way
	own := filepath.Dir(note.State)
	root := filepath.Dir(filepath.Dir(own))
	link = filepath.Join(root, fmt.Sprintf("%x-%x-%x-%x-%x", uuid[0:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]))
	if err == nil {
		target, err = filepath.Rel(root, own)
	}
	return link, target, err
}

// linkState makes a link for a domain that is defined. One that another's domain has left is replaced; a state that lies there itself is not.
func linkState(note tpmNote) error {
	link, target, err := stateLink(note)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(link); err == nil && info.Mode().Type() != fs.ModeSymlink {
		return fmt.Errorf("this machine has a TPM state of UUID %s, and nothing tells whose it is; if it is this guest's, the machine's administrator moves it from '%s' to '%s'",
			note.UUID, link, filepath.Dir(note.State))
	}
	// swtpm runs as a user of its own, to whom libvirt gives the state in it.
	if err := os.MkdirAll(filepath.Dir(note.State), 0o711); err != nil {
		return err
	}
	draft := link + "." + rand.Text()
	if err := os.Symlink(target, draft); err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, link)
}

// unlinkState removes a link, unless it leads to another's state.
func unlinkState(note tpmNote) error {
	link, target, err := stateLink(note)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(link); err != nil || have != target {
		return nil
	}
	return os.Remove(link)
}
