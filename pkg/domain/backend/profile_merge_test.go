package backend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/backends"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

func TestPolicyIsMerged(t *testing.T) {
	t.Parallel()
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "fast"}}}
	host := backend.Capabilities{Labels: map[string]string{"rack": "1"}}
	for _, c := range []struct {
		why      string
		profiles map[string]string
		want     string // policy as YAML, or the path of the error
	}{
		{"none", nil, "{}\n"},
		{"without selectors a profile is for all", map[string]string{"a": "{cpu: {shares: 512}}"}, "cpu:\n  shares: 512\n"},
		{"labels of the VM", map[string]string{"a": "{vmiSelector: {matchLabels: {tier: fast}}, cpu: {shares: 512}}",
			"b": "{vmiSelector: {matchLabels: {tier: slow}}, cpu: {quotaMicroseconds: 5000}}"}, "cpu:\n  shares: 512\n"},
		{"labels of the host",
			map[string]string{"a": "{nodeSelector: {matchExpressions: [{key: rack, operator: In, values: ['1', '2']}]}, cpu: {shares: 512}}",
				"b": "{nodeSelector: {matchLabels: {rack: '3'}}, cpu: {quotaMicroseconds: 5000}}"}, "cpu:\n  shares: 512\n"},
		{"fields of several come together", map[string]string{"a": "{cpu: {shares: 512}}", "b": "{cpu: {quotaMicroseconds: 5000}, net: {isolated: false}}"},
			"cpu:\n  quotaMicroseconds: 5000\n  shares: 512\nnet:\n  isolated: false\n"},
		{"the highest priority counts, field by field", map[string]string{"a": "{cpu: {shares: 512, quotaMicroseconds: 1000}}",
			"z": "{priority: 10, cpu: {shares: 1024}}", "b": "{priority: -1, cpu: {shares: 2}}"}, "cpu:\n  quotaMicroseconds: 1000\n  shares: 1024\n"},
		{"lists are taken whole", map[string]string{"a": "{cache: {l3Sizes: [1Mi, 2Mi, 3Mi]}}", "b": "{priority: 1, cache: {l3Sizes: [4Mi]}}"},
			"cache:\n  l3Sizes:\n  - 4Mi\n"},
		{"what a higher priority says to be off is off", map[string]string{"a": "{net: {vhost: true}}", "b": "{priority: 1, net: {vhost: false}}"},
			"net:\n  vhost: false\n"},
		{"two of one priority may agree", map[string]string{"a": "{cpu: {shares: 512}}", "b": "{cpu: {shares: 512}}"}, "cpu:\n  shares: 512\n"},
		{"two of one priority that differ", map[string]string{"a": "{cpu: {shares: 512}}", "b": "{cpu: {shares: 1024}}"},
			"FieldValueForbidden hostProfile.cpu.shares"},
		{"unless a higher one decides", map[string]string{"a": "{cpu: {shares: 512}}", "b": "{cpu: {shares: 1024}}",
			"c": "{priority: 1, cpu: {shares: 2}}"}, "cpu:\n  shares: 2\n"},
		{"one whose selector cannot be read is left out",
			map[string]string{"a": "{vmiSelector: {matchExpressions: [{key: tier, operator: Like}]}, cpu: {shares: 2}}", "b": "{cpu: {shares: 512}}"},
			"cpu:\n  shares: 512\n"},
		{"also when its other selector takes the host",
			map[string]string{"a": "{vmiSelector: {}, nodeSelector: {matchLabels: {rack: 'no value'}}, cpu: {shares: 2}}"}, "{}\n"},
	} {
		var profiles []v1alpha1.HostProfile
		for name, spec := range c.profiles { // in any order
			profiles = append(profiles, backends.HostProfile(t, name, spec))
		}
		policy, errs := backend.Policy(profiles, vmi, host)
		got := causes(errs)
		if len(errs) == 0 {
			text, err := yaml.Marshal(policy)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestUserWins: policy is for what the owner of a VM leaves open.
func TestUserWins(t *testing.T) {
	t.Parallel()
	m := backends.Machine(t, `{architecture: amd64, domain: {ioThreadsPolicy: shared, cpu: {cores: 1}, memory: {guest: 1Gi},
  devices: {disks: [{name: a, disk: {bus: virtio}, cache: writethrough, io: threads, errorPolicy: ignore}]}},
 volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}`)
	m.Policy = backends.PolicyOf(t, m,
		backends.HostProfile(t, "p", "{disk: {cachePolicy: Unsafe, ioPolicy: IOUring, errorPolicy: Stop, readErrorPolicy: Report}, ioThreads: {policy: None}}"))
	dom := rendered(t, m)
	id := uint(1)
	want := libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Cache: "writethrough", IO: "threads", ErrorPolicy: "ignore", Discard: "unmap", IOThread: &id}
	if diff := cmp.Diff(&want, dom.Devices.Disks[0].Driver); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
