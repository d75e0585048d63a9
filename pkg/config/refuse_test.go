package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
)

// What is wrong in a configuration is refused with its path, what is wrong and what to write instead.
func TestWrongConfiguration(t *testing.T) {
	for _, test := range []struct {
		name, why, text string
		want            []string // type, path and a word of the remedy
	}{
		{name: "architecture", why: "guests of another architecture render nowhere", text: "architectureConfiguration: {defaultArchitecture: ppc64le}",
			want: []string{"FieldValueNotSupported spec.configuration.architectureConfiguration.defaultArchitecture: s390x"}},
		{name: "globs", why: "a glob that matches nothing forbids every machine",
			text: "{emulatedMachines: ['q35*', '[q'], architectureConfiguration: {arm64: {emulatedMachines: ['[v']}}}",
			want: []string{"FieldValueInvalid spec.configuration.emulatedMachines[1]: glob pattern",
				"FieldValueInvalid spec.configuration.architectureConfiguration.arm64.emulatedMachines[0]: glob pattern"}},
		{name: "request", why: "no pod could be made", text: "cpuRequest: -1", want: []string{"FieldValueInvalid spec.configuration.cpuRequest: negative"}},
		{name: "eviction", why: "every guest would be refused for it", text: "evictionStrategy: Maybe",
			want: []string{"FieldValueNotSupported spec.configuration.evictionStrategy: LiveMigrate"}},
		{name: "slirp", why: "the API no longer has it", text: "network: {defaultNetworkInterface: slirp}",
			want: []string{"FieldValueNotSupported spec.configuration.network.defaultNetworkInterface: masquerade"}},
		{name: "rollout", why: "neither meaning can be guessed", text: "vmRolloutStrategy: Sometimes",
			want: []string{"FieldValueNotSupported spec.configuration.vmRolloutStrategy: Stage"}},
		{name: "ceiling", why: "every guest would be larger", text: "liveUpdateConfiguration: {maxGuest: 0}",
			want: []string{"FieldValueInvalid spec.configuration.liveUpdateConfiguration.maxGuest: greater than 0"}},
		{name: "policy", why: "neither meaning can be guessed", text: "instancetype: {referencePolicy: copy}",
			want: []string{"FieldValueNotSupported spec.configuration.instancetype.referencePolicy: expandAll"}},
		{name: "relative socket", why: "relative to what", text: "confidentialCompute: {tdx: {attestation: {qgsSocketPath: qgs}}}",
			want: []string{"FieldValueInvalid spec.configuration.confidentialCompute.tdx.attestation.qgsSocketPath: absolute path"}},
		{name: "climbing socket", why: "no path that leads elsewhere", text: "confidentialCompute: {tdx: {attestation: {qgsSocketPath: /run/../etc}}}",
			want: []string{"FieldValueInvalid spec.configuration.confidentialCompute.tdx.attestation.qgsSocketPath: '..'"}},
		{name: "gate in both lists", why: "either reading would surprise somebody",
			text: "developerConfiguration: {featureGates: [VSOCK], disabledFeatureGates: [Snapshot, VSOCK]}",
			want: []string{"FieldValueForbidden spec.configuration.developerConfiguration.disabledFeatureGates[1]: one of them"}},
		{name: "everything at once", why: "nobody wants to correct one mistake a restart",
			text: "{cpuRequest: -1, evictionStrategy: Maybe, vmRolloutStrategy: Sometimes}",
			want: []string{"FieldValueInvalid spec.configuration.cpuRequest: negative", "FieldValueNotSupported spec.configuration.evictionStrategy: None",
				"FieldValueNotSupported spec.configuration.vmRolloutStrategy: LiveUpdate"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, errs := config.FromKubeVirt(parse(t, test.text))
			var got []string
			for i, err := range errs {
				detail := ""
				if i < len(test.want) {
					detail = test.want[i][strings.Index(test.want[i], ": ")+2:]
				}
				if !strings.Contains(err.Detail, detail) {
					t.Errorf("%s: '%s' does not say '%s'", err.Field, err.Detail, detail)
				}
				got = append(got, string(err.Type)+" "+err.Field+": "+detail)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}

// The configuration belongs to its reader: what it is read from stays as it is, and two readings share nothing.
func TestNothingIsShared(t *testing.T) {
	text := "{emulatedMachines: [q35*], liveUpdateConfiguration: {maxGuest: 4Gi, maxCpuSockets: 8}, cpuRequest: 1, " +
		"permittedHostDevices: {usb: [{resourceName: a}]}}"
	cfg := parse(t, text)
	cluster, _ := config.FromKubeVirt(cfg)
	cluster.Limits.EmulatedMachines["amd64"][0] = "changed"
	cluster.Limits.Controllers[0] = "changed"
	cluster.Limits.Gates["VSOCK"] = true
	cluster.Limits.LiveUpdate.MaxGuest.Set(1)
	*cluster.Limits.LiveUpdate.MaxCPUSockets = 1
	cluster.Limits.PermittedHostDevices.USB[0].ResourceName = "changed"
	cluster.Defaults.Machines["amd64"] = "changed"
	cluster.Frontend.Video["amd64"] = "changed"
	if diff := cmp.Diff(parse(t, text), cfg); diff != "" {
		t.Errorf("the object that was read (-before +after):\n%s", diff)
	}
	again, _ := config.FromKubeVirt(parse(t, text))
	fresh, _ := config.FromKubeVirt(cfg)
	if diff := cmp.Diff(again, fresh); diff != "" {
		t.Errorf("a later reading (-want +got):\n%s", diff)
	}
}
