package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestPodWarnings: admission warns of fields that no pod starts, except beside KubeVirt, whose pods serve them. It does not warn of what an administrator can
// allow on the nodes.
func TestPodWarnings(t *testing.T) {
	t.Parallel()
	const see = "; see docs/reference/pods.md"
	for name, c := range map[string]struct {
		spec   string
		change func(*config.Cluster)
		want   []string
	}{
		"plain":    {spec: "domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}\nnetworks: [{name: a, pod: {}}]"},
		"realtime": {spec: "domain: {cpu: {realtime: {}}}", want: []string{"no pod starts this guest: domain.cpu.realtime" + see}},
		"queues of a pod network": {
			spec: "domain: {cpu: {cores: 2}, devices: {networkInterfaceMultiqueue: true, interfaces: [{name: a, model: virtio, masquerade: {}}]}}\n" +
				"networks: [{name: a, pod: {}}]",
			want: []string{"no pod starts this guest: domain.devices.networkInterfaceMultiqueue" + see},
		},
		"two": {
			spec: "domain: {cpu: {realtime: {}}, devices: {tpm: {persistent: true}}}",
			want: []string{"no pod starts this guest: domain.cpu.realtime" + see, "no pod starts this guest: domain.devices.tpm.persistent" + see},
		},
		"state that outlives pods": {spec: "domain: {devices: {tpm: {persistent: true}}}", change: func(c *config.Cluster) { c.Pods.StateClass = "fast" }},
		"beside KubeVirt":          {spec: "domain: {cpu: {realtime: {}}}", change: func(c *config.Cluster) { c.Limits.KubeVirtGuests = true }},
		"on bare machines":         {spec: "domain: {cpu: {realtime: {}}}", change: func(c *config.Cluster) { c.Limits.Runtime = config.RuntimeNode }},
		"no effect in a pod": {
			spec:   "utilityVolumes: [{name: a, type: MemoryDump}]\nevictionStrategy: LiveMigrate",
			change: func(c *config.Cluster) { c.Limits.Runtime = config.RuntimePod },
			want: []string{
				"utilityVolumes[0] has no effect: nothing is plugged into a running guest",
				"evictionStrategy has no effect: a guest is shut down when its node is drained, and not migrated",
			},
		},
		"four have no effect": {
			spec: "utilityVolumes: [{name: a}, {name: b}, {name: c}, {name: d}]", change: func(c *config.Cluster) { c.Limits.Runtime = config.RuntimePod },
			want: []string{
				"utilityVolumes[0] has no effect: nothing is plugged into a running guest",
				"utilityVolumes[1] has no effect: nothing is plugged into a running guest",
				"utilityVolumes[2] has no effect: nothing is plugged into a running guest",
				"further fields that have no effect in a pod: 1; 'kubectl kiln validate --runtime pod' lists them",
			},
		},
		"no effect on a bare machine": {
			spec:   "evictionStrategy: LiveMigrate\naffinity: {}\ntolerations: [{}]\nsubdomain: a\nschedulerName: b",
			change: func(c *config.Cluster) { c.Limits.Runtime = config.RuntimeNode },
			want: []string{
				"affinity has no effect: launchers claim VMIs by nodeSelector alone", "tolerations has no effect: launchers claim VMIs by nodeSelector alone",
				"schedulerName has no effect: launchers claim VMIs by nodeSelector alone",
				"further fields that have no effect on a bare machine: 2; 'kubectl kiln validate --runtime node' lists them",
			},
		},
		"what nodes may allow": {
			spec: "domain: {devices: {interfaces: [{name: a, sriov: {}}, {name: b, bridge: {}}]}}\n" +
				"networks: [{name: a, multus: {networkName: x}}, {name: b, multus: {networkName: z}}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vmi := &v1.VirtualMachineInstance{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &vmi.Spec); err != nil {
				t.Fatal(err)
			}
			cluster := config.Default()
			if c.change != nil {
				c.change(&cluster)
			}
			if diff := cmp.Diff(c.want, (Reviewer{}).runtimeWarnings(vmi, cluster, nobody)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	theirs := func() func(string) string {
		return func(path string) string {
			return map[string]string{"spec.domain.cpu.realtime": "instancetype 'rt1'"}[path]
		}
	}
	realtime := &v1.VirtualMachineInstance{Spec: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{CPU: &v1.CPU{Realtime: &v1.Realtime{}}}}}
	want := []string{"no pod starts this guest: instancetype 'rt1' sets domain.cpu.realtime" + see}
	if diff := cmp.Diff(want, (Reviewer{}).runtimeWarnings(realtime, config.Default(), theirs)); diff != "" {
		t.Errorf("what an instancetype sets (-want +got):\n%s", diff)
	}
	if got := (Reviewer{}).runtimeWarnings(nil, config.Cluster{}, nobody); got != nil {
		t.Errorf("no VMI: %q", got)
	}
}

// nobody set any field but the user and defaults.
func nobody() func(string) string { return func(string) string { return "" } }
