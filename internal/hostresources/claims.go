package hostresources

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// A bare machine has no storage classes. Its administrator describes claim 'data' of namespace 'shop' by a HostClaim in shop/data.yaml below --claims: a
// network disk, or a LUN behind a Fibre Channel adapter of the VMI's own. The file data.key beside it has the key of the disk, and data.luks the passphrase
// of a LUKS volume. Neither is ever part of a document, a log or an event.

// errNoClaims is the error for each claim if the launcher runs without --claims.
var errNoClaims = errors.New("this launcher serves no claims: it was started without --claims")

// worldWide matches a WWNN or WWPN.
var worldWide = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)

func lunVolume(l v1alpha1.HostLUN) (backend.Volume, error) {
	if path.Clean(l.Path) != l.Path || !strings.HasPrefix(l.Path, "/dev/disk/") {
		return backend.Volume{}, fmt.Errorf("spec.lun.path '%s' must be below /dev/disk", l.Path)
	}
	if a := l.Adapter; a.Parent == "" || !worldWide.MatchString(a.WWNN) || !worldWide.MatchString(a.WWPN) {
		return backend.Volume{}, errors.New("spec.lun.adapter must have a parent, and a wwnn and wwpn of 16 hexadecimal digits")
	}
	return backend.Volume{Path: l.Path, Format: "raw", Block: true, Adapter: &l.Adapter}, nil
}

// hostClaimVolume returns the disk that the administrator described for a claim of a namespace.
func (h *BareMachine) hostClaimVolume(namespace, claim string) (volumeSource, error) {
	// Admission does not check names of claims. Here '../shop/data' would lead to another namespace.
	if wrong := validation.IsDNS1123Subdomain(claim); len(wrong) > 0 {
		return volumeSource{}, fmt.Errorf("claim name '%s' is invalid: %s", claim, wrong[0])
	}
	if h.Claims == nil {
		return volumeSource{}, errNoClaims
	}
	file := path.Join(namespace, claim)
	raw, err := h.Claims.Read(file + ".yaml")
	if err != nil {
		return volumeSource{}, err
	}
	volume, err := describedVolume(raw)
	if err != nil {
		return volumeSource{}, fmt.Errorf("claim '%s': %w", claim, err)
	}
	return volumeSource{Volume: volume, values: secretValues{
		"luks": func() ([]byte, error) { return h.Claims.Read(file + ".luks") },
		"auth": func() ([]byte, error) { return h.Claims.Read(file + ".key") },
	}}, nil
}

// describedVolume reads a HostClaim. It refuses unknown fields: a mistyped 'encrypted' would give the guest the LUKS volume itself.
func describedVolume(raw []byte) (volume backend.Volume, err error) {
	var claim v1alpha1.HostClaim
	if err := yaml.UnmarshalStrict(raw, &claim); err != nil {
		return volume, err
	}
	if claim.GroupVersionKind() != v1alpha1.GroupVersion.WithKind(v1alpha1.KindHostClaim) {
		return volume, fmt.Errorf("its file must have apiVersion '%s' and kind '%s', and has '%s' and '%s'",
			v1alpha1.GroupVersion, v1alpha1.KindHostClaim, claim.APIVersion, claim.Kind)
	}
	spec := claim.Spec
	if (spec.Network == nil) == (spec.LUN == nil) {
		return volume, errors.New("its spec must have exactly one of network and lun")
	}
	volume = backend.Volume{Network: spec.Network, Format: "raw"}
	if spec.LUN != nil {
		volume, err = lunVolume(*spec.LUN)
	}
	volume.Encrypted = spec.Encrypted
	return volume, err
}
