package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestResources(t *testing.T) {
	const kvm, disk = "devices.kubevirt.io/kvm", "ephemeral-storage"
	for _, test := range []struct {
		why, spec        string
		with             func(*Input)
		requests, limits map[string]string
	}{
		{"KVM, and room for files", "", nil, map[string]string{kvm: "1", disk: "50M"}, map[string]string{kvm: "1"}},
		{"emulation", "", emulate, map[string]string{disk: "50M"}, map[string]string{}},
		{"room for files, and a limit", "domain: {resources: {requests: {ephemeral-storage: 1G}, limits: {ephemeral-storage: 2G}}}", emulate,
			map[string]string{disk: "1050M"}, map[string]string{disk: "2050M"}},
		{"what no field of the API has", "domain: {resources: {requests: {x.y/z: '2'}, limits: {x.y/z: '2'}}}", emulate,
			map[string]string{disk: "50M", "x.y/z": "2"}, map[string]string{"x.y/z": "2"}},
		{"a device that the VMI asks for itself", "domain: {resources: {limits: {devices.kubevirt.io/kvm: '3'}}}", nil,
			map[string]string{kvm: "1", disk: "50M"}, map[string]string{kvm: "1"}},
		{"devices of plugins", "domain: {devices: {gpus: [{name: a, deviceName: x.y/gpu}], " +
			"hostDevices: [{name: b, deviceName: x.y/gpu}, {name: c, deviceName: x.y/nic}]}}",
			func(in *Input) { emulate(in); locking(in) }, map[string]string{disk: "50M", "x.y/gpu": "2", "x.y/nic": "1"},
			map[string]string{"x.y/gpu": "2", "x.y/nic": "1"}},
		{"vsock", "domain: {devices: {autoattachVSOCK: true}}", emulate, map[string]string{disk: "50M", string(resourceVsock): "1"},
			map[string]string{string(resourceVsock): "1"}},
		{"SEV", "domain: {launchSecurity: {sev: {}}}", locking, map[string]string{kvm: "1", disk: "50M", string(resourceSEV): "1"},
			map[string]string{kvm: "1", string(resourceSEV): "1"}},
		{"no tap on the pod network", onPodNetwork(", bridge: {}"), nil, map[string]string{kvm: "1", disk: "50M"}, map[string]string{kvm: "1"}},
		{"a tap that the kernel serves", nic("bridge: {}"), taps,
			map[string]string{kvm: "1", disk: "50M", string(resourceTun): "1", string(resourceVhost): "1"},
			map[string]string{kvm: "1", string(resourceTun): "1", string(resourceVhost): "1"}},
		{"a tap with a card that the kernel does not know", nic("bridge: {}, model: e1000"), taps,
			map[string]string{kvm: "1", disk: "50M", string(resourceTun): "1"}, map[string]string{kvm: "1", string(resourceTun): "1"}},
		{"a tap under emulation", nic("bridge: {}"), func(in *Input) { emulate(in); taps(in) },
			map[string]string{disk: "50M", string(resourceTun): "1"}, map[string]string{string(resourceTun): "1"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			if test.with != nil {
				test.with(&in)
			}
			r := container(t, in).Resources
			for _, pair := range []struct {
				name string
				got  corev1.ResourceList
				want map[string]string
			}{{"requests", r.Requests, test.requests}, {"limits", r.Limits, test.limits}} {
				got := map[string]string{}
				for name, q := range pair.got {
					if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
						got[string(name)] = q.String()
					}
				}
				if diff := cmp.Diff(pair.want, got); diff != "" {
					t.Errorf("%s: %s", pair.name, diff)
				}
			}
		})
	}
}

func emulate(in *Input) { in.Emulate = true }

func taps(in *Input) { in.Taps = true }
