package bind

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// The state of a TPM holds what disks were encrypted with, and lies on this machine. With --tpm-keys it is encrypted by a key of its own,
// made at the first start.
//
// State and key that outlive the guest are named by its namespace and identity, others by the UID of the VMI, with which they go. Never
// by the UUID of the firmware: its tenant writes that, and could write the one of another tenant's guest. A libvirt before 10.10 keeps
// states by just that UUID, and cannot be told otherwise: there a link leads from its place to ours while the guest's domain is defined. libvirt
// has one domain of a UUID at most, so that the link has one owner.

// DefaultTPMStates is where libvirt keeps the state of TPMs, by the UUID of the guest.
const DefaultTPMStates = "/var/lib/libvirt/swtpm"

// canonicalUID is the form of the UIDs that an API server gives.
var canonicalUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// OwnTPMStates is our folder in libvirt's, below which security drivers let swtpm work.
const OwnTPMStates = "kiln"

// tpmName names state and key of a guest's TPM. The first form has a dot, which no UID and no namespace has.
func tpmName(vmi *v1.VirtualMachineInstance) (string, error) {
	if tpm := vmi.Spec.Domain.Devices.TPM; tpm != nil && set(tpm.Persistent) {
		identity := cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID))
		return fmt.Sprintf("%s.%x", vmi.Namespace, sha256.Sum256([]byte(identity))), nil // an identity is any text
	}
	if !canonicalUID.MatchString(string(vmi.UID)) {
		return "", fmt.Errorf("UID '%s' is not a UUID", vmi.UID) // and might be a path
	}
	return string(vmi.UID), nil
}

func set(flag *bool) bool { return flag != nil && *flag }

// tpm is where the state of a guest's TPM lies, and whether it is encrypted.
type tpm struct {
	state     string
	encrypted bool
}

// tpm finds state and key of a guest's TPM. Nothing is made yet.
func (h *BareMachine) tpm(vmi *v1.VirtualMachineInstance) (tpm, field.ErrorList) {
	if vmi.Spec.Domain.Devices.TPM == nil {
		return tpm{}, nil
	}
	name, err := tpmName(vmi)
	if err != nil {
		return tpm{}, field.ErrorList{field.InternalError(tpmPath, err)}
	}
	encrypted, err := h.encryptsTPM(name)
	if err != nil {
		return tpm{}, field.ErrorList{field.InternalError(tpmPath, err)}
	}
	return tpm{h.tpmState(name), encrypted}, nil
}

var tpmPath = field.NewPath("spec", "domain", "devices", "tpm")

// tpmState is the folder of a TPM's state, as libvirt would name it in a folder of the guest's own.
func (h *BareMachine) tpmState(name string) string {
	return filepath.Join(cmp.Or(h.TPMStates, DefaultTPMStates), OwnTPMStates, name, "tpm2")
}

func (h *BareMachine) tpmKey(name string) string { return filepath.Join(h.TPMKeys, name+".key") }

// encryptsTPM tells whether a guest's TPM has a key or is to get one. A state that was made without a key stays without: swtpm does not
// start with a key on it, and made anew the guest would have lost what it holds.
func (h *BareMachine) encryptsTPM(name string) (bool, error) {
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
func (h *BareMachine) tpmSecret(vmi *v1.VirtualMachineInstance) ([]byte, error) {
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
func (h *BareMachine) forgetTPM(vmi *v1.VirtualMachineInstance) error {
	name := string(vmi.UID)
	if !canonicalUID.MatchString(name) {
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
