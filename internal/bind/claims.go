package bind

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A bare machine has no storage classes. What claim 'data' of namespace 'shop' is, its administrator says in shop/data.yaml below --claims, a
// folder that nothing is served from: a disk of the network, or a LUN that a Fibre Channel adapter of the guest's own reaches. Its key is in
// data.key beside it, the passphrase of a LUKS volume in data.luks; neither is ever part of a document, a log or an event.

// errNoClaims is what a launcher without --claims says to each claim.
var errNoClaims = errors.New("this launcher knows no claims: it was started without --claims")

// described is such a file.
type described struct {
	Network   *backend.NetworkDisk `json:"network,omitempty"`
	LUN       *lun                 `json:"lun,omitempty"`
	Encrypted bool                 `json:"encrypted,omitempty"`
}

// lun is a block device that is there once its adapter is.
type lun struct {
	// Path is below /dev/disk, where names stay.
	Path    string              `json:"path"`
	Adapter backend.HostAdapter `json:"adapter"`
}

// worldWide is a name in a fabric.
var worldWide = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)

func (l lun) volume() (backend.Volume, error) {
	if path.Clean(l.Path) != l.Path || !strings.HasPrefix(l.Path, "/dev/disk/") {
		return backend.Volume{}, fmt.Errorf("the path of its LUN is '%s', want one below /dev/disk", l.Path)
	}
	if a := l.Adapter; a.Parent == "" || !worldWide.MatchString(a.WWNN) || !worldWide.MatchString(a.WWPN) {
		return backend.Volume{}, errors.New("the adapter of its LUN needs a parent, and a wwnn and wwpn of 16 hexadecimal digits")
	}
	return backend.Volume{Path: l.Path, Format: "raw", Block: true, Adapter: &l.Adapter}, nil
}

// claimName is the claim of a volume, empty for volumes of other kinds. The claim of a data volume has its name.
func claimName(volume v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	}
	return ""
}

// claimFile reads what the administrator has written about a claim.
func (h *BareMachine) claimFile(namespace, claim, suffix string) ([]byte, error) {
	if h.Claims == nil {
		return nil, errNoClaims
	}
	return h.Claims.Read(path.Join(namespace, claim+suffix))
}

func (h *BareMachine) claim(namespace, claim string) (backend.Volume, error) {
	// Admission leaves the names of claims to the cluster. Here '../shop/data' would be another namespace's.
	if wrong := validation.IsDNS1123Subdomain(claim); len(wrong) > 0 {
		return backend.Volume{}, fmt.Errorf("claim '%s': no claim has this name: %s", claim, wrong[0])
	}
	raw, err := h.claimFile(namespace, claim, ".yaml")
	if err != nil {
		return backend.Volume{}, err
	}
	var c described
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		return backend.Volume{}, fmt.Errorf("claim '%s': %w", claim, err)
	}
	if (c.Network == nil) == (c.LUN == nil) {
		return backend.Volume{}, fmt.Errorf("claim '%s': its file must name either a network disk or a lun", claim)
	}
	volume := backend.Volume{Network: c.Network, Format: "raw"}
	if c.LUN != nil {
		if volume, err = c.LUN.volume(); err != nil {
			return backend.Volume{}, fmt.Errorf("claim '%s': %w", claim, err)
		}
	}
	volume.Encrypted = c.Encrypted
	return volume, nil
}

// Secrets reads the values of those that a guest needs, by reference.
func (h *BareMachine) Secrets(vmi *v1.VirtualMachineInstance, wanted []backend.Secret) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, secret := range wanted {
		if secret.Ref == backend.TPM {
			key, err := h.tpmSecret(vmi)
			if err != nil {
				return nil, err
			}
			values[secret.Ref] = key
			continue
		}
		kind, name, _ := strings.Cut(secret.Ref, "/")
		suffix := map[string]string{"luks": ".luks", "auth": ".key"}[kind]
		for _, volume := range vmi.Spec.Volumes {
			if volume.Name != name || suffix == "" {
				continue
			}
			value, err := h.claimFile(vmi.Namespace, claimName(volume), suffix)
			if err != nil {
				return nil, err
			}
			values[secret.Ref] = value
		}
	}
	return values, nil
}
