package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

func developer(on, off []string) v1.KubeVirtConfiguration {
	return v1.KubeVirtConfiguration{DeveloperConfiguration: &v1.DeveloperConfiguration{FeatureGates: on, DisabledFeatureGates: off}}
}

// Each stage of a gate in each of the three things that a cluster can say about it.
func TestGates(t *testing.T) {
	for _, test := range []struct {
		name, why, gate           string
		stage                     config.Stage
		unsaid, listed, switchOff bool
	}{
		{name: "alpha", why: "off unless asked for", gate: "VSOCK", stage: config.Alpha, listed: true},
		{name: "beta", why: "on until somebody disables it", gate: "PasstBinding", stage: config.Beta, unsaid: true, listed: true},
		{name: "general", why: "a GA gate cannot be switched off", gate: "NUMA", stage: config.GA, unsaid: true, listed: true,
			switchOff: true},
		{name: "deprecated", why: "on only where somebody still lists it", gate: "HotplugVolumes", stage: config.Deprecated, listed: true},
		{name: "discontinued", why: "rules refuse what a listed gate asked for", gate: "Macvtap", stage: config.Discontinued, listed: true},
		{name: "unknown", why: "a gate of a newer KubeVirt has no effect", gate: "FromTheFuture"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if stage := config.Newest.StageOf(test.gate); stage != test.stage {
				t.Errorf("stage '%s', want '%s'", stage, test.stage)
			}
			var got [3]bool
			for i, cfg := range []v1.KubeVirtConfiguration{{}, developer([]string{test.gate}, nil), developer(nil, []string{test.gate})} {
				cluster, errs := config.FromKubeVirt(cfg)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				got[i] = cluster.Limits.Gates.Enabled(test.gate)
			}
			if want := [3]bool{test.unsaid, test.listed, test.switchOff}; got != want {
				t.Errorf("%s: unsaid, listed, disabled: %v, want %v", test.why, got, want)
			}
		})
	}
}

func TestGateWarnings(t *testing.T) {
	unknown := "feature gate 'FromTheFuture' is unknown and has no effect"
	for _, test := range []struct {
		name, why string
		cfg       v1.KubeVirtConfiguration
		want      []string
	}{
		{name: "nothing", why: "there is nothing to warn of"},
		{name: "fine", why: "both lists do what they say", cfg: developer([]string{"VSOCK"}, []string{"PasstBinding"})},
		{name: "unknown", why: "a typing error in either list would go unnoticed", cfg: developer([]string{"FromTheFuture"}, []string{"FromTheFuture"}),
			want: []string{unknown, unknown}},
		{name: "general", why: "it stays on, against the word of the list", cfg: developer(nil, []string{"NUMA"}),
			want: []string{"feature gate 'NUMA' is generally available and cannot be disabled"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, config.Newest.Warnings(test.cfg)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}

// TestOlderGates: gates by version. Until v1.8 a Beta gate is off unless it is listed, and nothing can disable it.
func TestOlderGates(t *testing.T) {
	for _, test := range []struct {
		gate         string
		version      config.Version
		unset, given bool
	}{
		{"PanicDevices", 9, true, true}, {"PanicDevices", 8, false, true}, {"PanicDevices", 7, false, true},
		{"PasstBinding", 9, true, true}, {"PasstBinding", 8, false, true}, {"PasstBinding", 7, false, false},
		{"MultiArchitecture", 8, false, true}, {"MultiArchitecture", 7, false, true},
		{"EnableVirtioFsConfigVolumes", 8, true, true}, {"EnableVirtioFsConfigVolumes", 7, false, true},
		{"NUMA", 7, true, true}, {"Plugins", 8, false, false}, {"Plugins", 12, false, true}, {"PasstBinding", 3, false, false},
	} {
		for i, cfg := range []v1.KubeVirtConfiguration{{}, developer([]string{test.gate}, nil)} {
			cluster, errs := test.version.FromKubeVirt(cfg)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if want := []bool{test.unset, test.given}[i]; cluster.Limits.Gates.Enabled(test.gate) != want {
				t.Errorf("gate %s of %s, listed: %t, on: %t, want %t", test.gate, test.version, i == 1, !want, want)
			}
		}
	}
	old, _ := config.Version(7).FromKubeVirt(developer([]string{"ExperimentalVirtiofsSupport", "PersistentReservation"}, nil))
	now, _ := config.Newest.FromKubeVirt(developer([]string{"ExperimentalVirtiofsSupport", "PersistentReservation"}, nil))
	if gate := "EnableVirtioFsStorageVolumes"; !old.Limits.Gates.Enabled(gate) || now.Limits.Gates.Enabled(gate) {
		t.Errorf("the gate of virtiofs before it was divided: %t in v1.7, %t now", old.Limits.Gates.Enabled(gate), now.Limits.Gates.Enabled(gate))
	}
	if !old.Limits.PersistentReservation || now.Limits.PersistentReservation {
		t.Errorf("reservations by the gate: %t in v1.7, %t now", old.Limits.PersistentReservation, now.Limits.PersistentReservation)
	}
	if got := config.Version(8).Warnings(developer([]string{"Plugins", "PanicDevices"}, nil)); len(got) != 1 {
		t.Errorf("warnings of v1.8: %q", got)
	}
}
