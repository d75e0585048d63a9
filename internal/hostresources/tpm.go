package hostresources

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
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// The state of a TPM contains keys of encrypted disks. It stays on this machine. With --tpm-keys it is encrypted with a key of its own, which the first start
// creates.
//
// The names of state and key contain namespace and identity if the TPM is persistent. Otherwise they contain the UID of the VMI, and are removed with the
// VMI. They never depend on the UUID of the firmware, because a tenant could set the UUID of another tenant's VM. libvirt before 10.10 finds states only by
// that UUID. For it a link leads from libvirt's path to Kiln's while the domain is defined. libvirt has at most one domain of a UUID, so the link has one
// owner.

// DefaultTPMStates is libvirt's folder of TPM states.
const DefaultTPMStates = "/var/lib/libvirt/swtpm"

// canonicalUID matches the UIDs that an API server generates.
var canonicalUID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// OwnTPMStates is the name of Kiln's folder in libvirt's folder, below which security drivers allow swtpm to work.
const OwnTPMStates = "kiln"

// tpmName returns the name of state and key of a VMI's TPM. The first form contains a dot, which UIDs and namespaces cannot.
func tpmName(vmi *v1.VirtualMachineInstance) (string, error) {
	if tpm := vmi.Spec.Domain.Devices.TPM; tpm != nil && ptr.Deref(tpm.Persistent, false) {
		identity := cmp.Or(vmi.Annotations[v1alpha1.AnnotationIdentity], string(vmi.UID))
		return fmt.Sprintf("%s.%x", vmi.Namespace, sha256.Sum256([]byte(identity))), nil // an identity is any text
	}
	if !canonicalUID.MatchString(string(vmi.UID)) {
		return "", fmt.Errorf("UID '%s' is not a UUID", vmi.UID) // it could be a path
	}
	return string(vmi.UID), nil
}

// tpm is the TPM of a VMI. It is empty if the VMI has none.
type tpm struct {
	// state is the folder of the state.
	state     string
	encrypted bool
	// key returns the key of the state, and creates it if it does not exist.
	key func() ([]byte, error)
}

// findTPM finds state and key of a VMI's TPM. It creates nothing.
func (h *BareMachine) findTPM(vmi *v1.VirtualMachineInstance) (tpm, field.ErrorList) {
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
	return tpm{h.tpmState(name), encrypted, func() ([]byte, error) { return readKey(h.tpmKey(name)) }}, nil
}

var tpmPath = field.NewPath("spec", "domain", "devices", "tpm")

// tpmState returns the folder of a TPM's state, whose last element is libvirt's.
func (h *BareMachine) tpmState(name string) string {
	return filepath.Join(cmp.Or(h.TPMStates, DefaultTPMStates), OwnTPMStates, name, "tpm2")
}

func (h *BareMachine) tpmKey(name string) string { return filepath.Join(h.TPMKeys, name+".key") }

// encryptsTPM reports whether a TPM has a key or gets one at this start. A state that was created without a key stays unencrypted: swtpm does not start on it
// with a key, and a new state would lose the content.
func (h *BareMachine) encryptsTPM(name string) (bool, error) {
	if h.TPMKeys == "" {
		return false, nil
	}
	if there, err := fileExists(h.tpmKey(name)); err != nil || there {
		return there, err
	}
	there, err := fileExists(h.tpmState(name))
	return !there && err == nil, err
}

// fileExists reports whether a file exists. It returns any error other than the file's absence, because a key that cannot be read must not count as missing.
func fileExists(file string) (bool, error) {
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readKey returns the key in a file, and creates it if it does not exist. Only libvirt gets it.
func readKey(file string) ([]byte, error) {
	err := createOnce(file, func(draft string) error {
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

// forgetTPM removes the key and state of a TPM that is not persistent.
func (h *BareMachine) forgetTPM(vmi *v1.VirtualMachineInstance) error {
	name := string(vmi.UID)
	if !canonicalUID.MatchString(name) {
		return nil // it never had any
	}
	if err := os.RemoveAll(filepath.Dir(h.tpmState(name))); err != nil || h.TPMKeys == "" {
		return err
	}
	if err := os.Remove(h.tpmKey(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
