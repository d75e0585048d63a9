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
			if stage := config.StageOf(test.gate); stage != test.stage {
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
			if diff := cmp.Diff(test.want, config.Warnings(test.cfg)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}
