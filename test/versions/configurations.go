package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
)

// Configurations of the cases: KubeVirt's defaults, every gate on, every Beta gate off.
const (
	byDefault = "default"
	allOn     = "all"
	allOff    = "off"
)

// writeConfigurations writes the configurations. Of the gates that are listed, a version ignores those that it does not have.
func writeConfigurations(path string) error {
	var on, off []string
	for _, gate := range slices.Sorted(maps.Keys(config.AllGates())) {
		stage := config.Newest.StageOf(gate)
		if stage == config.Beta {
			off = append(off, gate)
		}
		// HotplugVolumes replaces DeclarativeHotplugVolumes where both are on.
		if stage != config.Discontinued && gate != "HotplugVolumes" {
			on = append(on, gate)
		}
	}
	type object = map[string]any
	raw, err := json.MarshalIndent(object{
		byDefault: object{"configuration": object{}},
		allOn: object{"configuration": object{
			"developerConfiguration": object{"featureGates": on}, "persistentReservationConfiguration": object{"enabled": true},
		}},
		allOff: object{"configuration": object{"developerConfiguration": object{"disabledFeatureGates": off}}},
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
