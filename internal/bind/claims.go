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

// A bare machine has no storage classes. Its administrator describes claim 'data' of namespace 'shop' in shop/data.yaml below --claims: a network
// disk, or a LUN behind a Fibre Channel adapter of the VMI's own. The key of the disk is in data.key beside it, the passphrase of a LUKS volume in
// data.luks. Neither is ever part of a document, a log or an event.

// errNoClaims is the error for each claim if the launcher runs without --claims.
var errNoClaims = errors.New("this launcher serves no claims: it was started without --claims")

// described is the content of a claim's YAML file.
type described struct {
	Network   *backend.NetworkDisk `json:"network,omitempty"`
	LUN       *lun                 `json:"lun,omitempty"`
	Encrypted bool                 `json:"encrypted,omitempty"`
}

// lun is a block device that exists once its adapter does.
type lun struct {
	// Path is below /dev/disk, whose names are stable.
	Path    string              `json:"path"`
	Adapter backend.HostAdapter `json:"adapter"`
}

// worldWide is the form of a WWNN or WWPN.
var worldWide = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)

func (l lun) volume() (backend.Volume, error) {
	if path.Clean(l.Path) != l.Path || !strings.HasPrefix(l.Path, "/dev/disk/") {
		return backend.Volume{}, fmt.Errorf("lun.path '%s' must be below /dev/disk", l.Path)
	}
	if a := l.Adapter; a.Parent == "" || !worldWide.MatchString(a.WWNN) || !worldWide.MatchString(a.WWPN) {
		return backend.Volume{}, errors.New("lun.adapter must have a parent, and a wwnn and wwpn of 16 hexadecimal digits")
	}
	return backend.Volume{Path: l.Path, Format: "raw", Block: true, Adapter: &l.Adapter}, nil
}

// claimName returns the claim of a volume, empty for other kinds of volumes. The claim of a DataVolume has the DataVolume's name.
func claimName(volume v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	}
	return ""
}

// claimFile reads one of the administrator's files about a claim.
func (h *BareMachine) claimFile(namespace, claim, suffix string) ([]byte, error) {
	if h.Claims == nil {
		return nil, errNoClaims
	}
	return h.Claims.Read(path.Join(namespace, claim+suffix))
}

func (h *BareMachine) claim(namespace, claim string) (backend.Volume, error) {
	// Admission does not check names of claims. Here '../shop/data' would lead to another namespace.
	if wrong := validation.IsDNS1123Subdomain(claim); len(wrong) > 0 {
		return backend.Volume{}, fmt.Errorf("claim name '%s' is invalid: %s", claim, wrong[0])
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
		return backend.Volume{}, fmt.Errorf("claim '%s': its file must have exactly one of network and lun", claim)
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

// Secrets returns the values of the secrets that a VMI needs, by reference.
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
