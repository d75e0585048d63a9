package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// parse reads what stands in spec.configuration.
func parse(t *testing.T, text string) v1.KubeVirtConfiguration {
	t.Helper()
	var cfg v1.KubeVirtConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestFromKubeVirt(t *testing.T) {
	for _, test := range []struct {
		name, why, text string
		got             func(config.Cluster) any
		want            any
	}{
		{name: "architecture", why: "most clusters have one", got: func(c config.Cluster) any { return c.Defaults.Architecture }, want: "amd64"},
		{name: "own architecture", why: "of guests that name none", text: "architectureConfiguration: {defaultArchitecture: arm64}",
			got: func(c config.Cluster) any { return c.Defaults.Architecture }, want: "arm64"},
		{name: "machines", why: "aliases, whose version is frozen at the first start", got: func(c config.Cluster) any { return c.Defaults.Machines },
			want: map[string]string{"amd64": "q35", "arm64": "virt", "s390x": "s390-ccw-virtio"}},
		{name: "old machine setting", why: "it is older than other architectures, and means amd64", text: "{machineType: pc-q35-7.2, emulatedMachines: [pc-q35-7*]}",
			got: func(c config.Cluster) any {
				return []any{c.Defaults.Machines["amd64"], c.Limits.EmulatedMachines["amd64"], c.Defaults.Machines["arm64"]}
			},
			want: []any{"pc-q35-7.2", []string{"pc-q35-7*"}, "virt"}},
		{name: "machine per architecture", why: "the newer setting wins over the old one",
			text: "{machineType: pc-q35-7.2, architectureConfiguration: {amd64: {machineType: pc-q35-8.0}, s390x: {emulatedMachines: [s390-ccw-virtio-8*]}}}",
			got: func(c config.Cluster) any {
				return []any{c.Defaults.Machines["amd64"], c.Limits.EmulatedMachines["s390x"]}
			},
			want: []any{"pc-q35-8.0", []string{"s390-ccw-virtio-8*"}}},
		{name: "CPU model", why: "KubeVirt's", got: func(c config.Cluster) any { return c.Defaults.CPUModel }, want: "host-model"},
		{name: "own CPU model", why: "one that all hosts have", text: "cpuModel: Haswell", got: func(c config.Cluster) any { return c.Defaults.CPUModel },
			want: "Haswell"},
		{name: "CPU request", why: "absent: pods get one from the number of vCPUs", got: func(c config.Cluster) any { return c.Defaults.CPURequest == nil },
			want: true},
		{name: "KubeVirt's CPU request", why: "an operator writes the default into the object, which nobody meant", text: "cpuRequest: 100m",
			got: func(c config.Cluster) any { return c.Defaults.CPURequest == nil }, want: true},
		{name: "own CPU request", why: "somebody meant it", text: "cpuRequest: 50m",
			got: func(c config.Cluster) any { return c.Defaults.CPURequest.String() }, want: "50m"},
		{name: "eviction", why: "mutate and validate see the same one", text: "evictionStrategy: LiveMigrate",
			got: func(c config.Cluster) any {
				return [2]v1.EvictionStrategy{*c.Defaults.EvictionStrategy, *c.Limits.EvictionStrategy}
			},
			want: [2]v1.EvictionStrategy{"LiveMigrate", "LiveMigrate"}},
		{name: "no eviction", why: "None is said, so that it is read in the guest", got: func(c config.Cluster) any { return *c.Defaults.EvictionStrategy },
			want: v1.EvictionStrategyNone},
		{name: "network", why: "KubeVirt's", got: func(c config.Cluster) any { return []any{c.Defaults.NetworkInterface, c.Limits.BridgeOnPodNetwork} },
			want: []any{"bridge", true}},
		{name: "own network", why: "clusters that forbid bridges choose masquerade",
			text: "network: {defaultNetworkInterface: masquerade, permitBridgeInterfaceOnPodNetwork: false}",
			got:  func(c config.Cluster) any { return []any{c.Defaults.NetworkInterface, c.Limits.BridgeOnPodNetwork} }, want: []any{"masquerade", false}},
		{name: "live update", why: "guests grow fourfold", got: func(c config.Cluster) any { return *c.Defaults.LiveUpdate },
			want: config.LiveUpdate{MaxHotplugRatio: 4}},
		{name: "stage", why: "nothing grows while it runs", text: "{vmRolloutStrategy: Stage, liveUpdateConfiguration: {maxHotplugRatio: 2}}",
			got: func(c config.Cluster) any { return []any{c.Defaults.LiveUpdate == nil, c.Limits.LiveUpdate == nil} }, want: []any{true, true}},
		{name: "own live update", why: "limits of the cluster's own", text: "liveUpdateConfiguration: {maxHotplugRatio: 2, maxCpuSockets: 8, maxGuest: 4Gi}",
			got: func(c config.Cluster) any {
				own := c.Limits.LiveUpdate
				return []any{own.MaxHotplugRatio, *own.MaxCPUSockets, own.MaxGuest.String()}
			}, want: []any{uint32(2), uint32(8), "4Gi"}},
		{name: "policy", why: "the spec that is applied is the spec that is read", got: func(c config.Cluster) any { return c.Policy }, want: v1.Reference},
		{name: "own policy", why: "KubeVirt's words", text: "instancetype: {referencePolicy: expandAll}",
			got: func(c config.Cluster) any { return c.Policy }, want: v1.ExpandAll},
		{name: "reservations", why: "off unless the administrator allows them", got: func(c config.Cluster) any { return c.Limits.PersistentReservation },
			want: false},
		{name: "own reservations", why: "allowed", text: "persistentReservationConfiguration: {enabled: true}",
			got: func(c config.Cluster) any { return c.Limits.PersistentReservation }, want: true},
		{name: "host devices", why: "what guests may have", text: "permittedHostDevices: {pciHostDevices: [{pciVendorSelector: 'a:b', resourceName: example.com/a}]}",
			got: func(c config.Cluster) any { return c.Limits.PermittedHostDevices.PciHostDevices[0].ResourceName }, want: "example.com/a"},
		{name: "quote socket", why: "where the distribution's service listens", got: func(c config.Cluster) any { return c.Defaults.QuoteSocket },
			want: "/var/run/tdx-qgs/qgs.socket"},
		{name: "own quote socket", why: "where this cluster's listens", text: "confidentialCompute: {tdx: {attestation: {qgsSocketPath: /run/qgs}}}",
			got: func(c config.Cluster) any { return c.Defaults.QuoteSocket }, want: "/run/qgs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, errs := config.FromKubeVirt(parse(t, test.text))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(test.want, test.got(cluster)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}
