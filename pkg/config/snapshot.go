package config

import (
	"encoding/json"
	"fmt"
)

// A guest keeps the defaults that it was first made explicit with: an administrator who changes the cluster's does not change the
// machines that are there. What is kept is Defaults as JSON, as the spec of an object like any other that guests are made from. A
// field that comes with a later release must mean with its zero value what guests had before.

// The type and name of the object. No API serves it; it is found in snapshots alone.
const (
	snapshotVersion = "kilnvm.io/v1alpha1"
	SnapshotKind    = "ClusterConfiguration"
	snapshotName    = "configuration"
)

// Object is these defaults as an untyped object with apiVersion, kind, metadata.name and spec.
func (d Defaults) Object() (map[string]any, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("recording the configuration: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("recording the configuration: %w", err)
	}
	return map[string]any{"apiVersion": snapshotVersion, "kind": SnapshotKind, "metadata": map[string]any{"name": snapshotName}, "spec": spec}, nil
}

// ReadDefaults reads what Object recorded, from its JSON.
func ReadDefaults(data []byte) (*Defaults, error) {
	var stored struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Spec       Defaults `json:"spec"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, fmt.Errorf("reading a recorded configuration: %w", err)
	}
	if stored.APIVersion != snapshotVersion || stored.Kind != SnapshotKind {
		return nil, fmt.Errorf("recorded configuration: is %s %s, want %s %s", stored.APIVersion, stored.Kind, snapshotVersion, SnapshotKind)
	}
	return &stored.Spec, nil
}
