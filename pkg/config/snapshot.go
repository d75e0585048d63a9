package config

import (
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// snapshotName is metadata.name of every ClusterConfiguration. It is part of the digest of a revision's name, so it must not change.
const snapshotName = "configuration"

// Snapshot returns defaults as an untyped ClusterConfiguration with apiVersion, kind, metadata.name and spec. instancetype.Take makes a revision of it.
func Snapshot(d Defaults) (map[string]any, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("recording the configuration: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("recording the configuration: %w", err)
	}
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindClusterConfiguration,
		"metadata": map[string]any{"name": snapshotName}, "spec": spec}, nil
}

// ReadDefaults returns the defaults in the JSON of a ClusterConfiguration. It returns an error for any other kind or version, and for a frontend that no
// FrontendProfile can have: a backup tool may have written the revision.
func ReadDefaults(data []byte) (*Defaults, error) {
	var stored v1alpha1.ClusterConfiguration
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("reading a recorded configuration: %w", err)
	}
	if want := v1alpha1.GroupVersion.String(); stored.APIVersion != want || stored.Kind != v1alpha1.KindClusterConfiguration {
		return nil, fmt.Errorf("recorded configuration: is %s %s, want %s %s", stored.APIVersion, stored.Kind, want, v1alpha1.KindClusterConfiguration)
	}
	if err := CheckFrontend(stored.Spec.Frontend); err != nil {
		return nil, fmt.Errorf("recorded configuration: %w", err)
	}
	return &stored.Spec, nil
}

// CheckFrontend returns an error for a pinned FrontendProfile that cannot be used. Nil means that there is no profile, and is accepted.
func CheckFrontend(pinned *v1alpha1.Frontend) error {
	if pinned == nil {
		return nil
	}
	path := field.NewPath("frontend")
	errs := InvalidFrontend(&pinned.FrontendProfileSpec, path)
	if err := InvalidFrontendName(pinned.Version, path.Child("version")); err != nil {
		errs = append(errs, err)
	}
	return errs.ToAggregate()
}
