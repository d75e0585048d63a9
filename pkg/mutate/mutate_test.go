package mutate

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func TestOrder(t *testing.T) {
	at := func(name string) int {
		return slices.IndexFunc(passes, func(p pass) bool { return p.Name == name })
	}
	for _, pair := range order {
		first, second := at(pair.first), at(pair.second)
		if first < 0 || second < 0 {
			t.Errorf("'%s' before '%s' names a pass that does not exist", pair.first, pair.second)
		} else if first > second {
			t.Errorf("'%s' must run before '%s': %s", pair.first, pair.second, pair.because)
		}
	}
}

func quantity(text string) *resource.Quantity { q := resource.MustParse(text); return &q }

func TestApply(t *testing.T) {
	for _, test := range []struct {
		name, why string
		given     v1.VirtualMachineInstanceSpec
		got       func(v1.VirtualMachineInstanceSpec) any
		want      any
	}{
		{
			name: "architecture", why: "the cluster's",
			got: func(s v1.VirtualMachineInstanceSpec) any { return s.Architecture + " " + s.Domain.Machine.Type }, want: "amd64 q35",
		},
		{
			name: "machine of another architecture", why: "the default machine follows the guest's architecture",
			given: v1.VirtualMachineInstanceSpec{Architecture: "arm64"},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Machine.Type + " " + s.Domain.CPU.Model }, want: "virt host-passthrough",
		},
		{
			name: "sockets from the limit", why: "without a topology the CPU limit, rounded up, is the number of sockets",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Resources: v1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": *quantity("2500m")}}}},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.CPU.Sockets }, want: uint32(3),
		},
		{
			name: "partial topology", why: "a count left out beside another means 1, and no ratio applies to sockets that are not given",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{CPU: &v1.CPU{Cores: 4}}},
			got: func(s v1.VirtualMachineInstanceSpec) any {
				return [4]uint32{s.Domain.CPU.Sockets, s.Domain.CPU.Cores, s.Domain.CPU.Threads, s.Domain.CPU.MaxSockets}
			}, want: [4]uint32{0, 4, 0, 0},
		},
		{
			name: "memory from the request", why: "without memory.guest the memory request is used",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Resources: v1.ResourceRequirements{Requests: corev1.ResourceList{"memory": *quantity("1Gi")}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any {
				return s.Domain.Memory.Guest.String() + " " + s.Domain.Memory.MaxGuest.String()
			}, want: "1Gi 4Gi",
		},
		{
			name: "a memory request of nothing", why: "a zero quantity counts as unset, and the limit is used",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Resources: v1.ResourceRequirements{
				Requests: corev1.ResourceList{"memory": *quantity("0")}, Limits: corev1.ResourceList{"memory": *quantity("1Gi")}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Memory.Guest.String() }, want: "1Gi",
		},
		{
			name: "a CPU limit of nothing", why: "Kubernetes reads a limit of 0 as no limit; the VMI gets one socket",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Resources: v1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": *quantity("0")}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any {
				return [2]int{int(s.Domain.CPU.Sockets), len(s.Domain.Resources.Requests)}
			}, want: [2]int{1, 0},
		},
		{
			name: "no memory at all", why: "mutate cannot fail; validate refuses the VMI",
			got: func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Memory == nil }, want: true,
		},
		{
			name: "small guests do not grow", why: "memory is plugged only where memory.guest is 1 GiB or more",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Memory: &v1.Memory{Guest: quantity("512Mi")}}},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Memory.MaxGuest == nil }, want: true,
		},
		{
			name: "volume without a disk", why: "a volume that no disk or file system uses would be invisible in the guest",
			given: v1.VirtualMachineInstanceSpec{Volumes: []v1.Volume{{Name: "a"}}},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return string(s.Domain.Devices.Disks[0].Disk.Bus) }, want: "sata",
		},
		{
			name: "CD-ROM on arm64", why: "there is no virtio CD-ROM, and the machine has no SATA",
			given: v1.VirtualMachineInstanceSpec{Architecture: "arm64", Domain: v1.DomainSpec{Devices: v1.Devices{
				Disks: []v1.Disk{{Name: "a", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{}}}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return string(s.Domain.Devices.Disks[0].CDRom.Bus) }, want: "scsi",
		},
		{
			name: "no pod interface wanted", why: "autoattachPodInterface: false",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{AutoattachPodInterface: new(false)}}},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return len(s.Networks) }, want: 0,
		},
		{
			name: "input devices of the user's", why: "autoattachInputDevice adds none beside inputs that are named",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{AutoattachInputDevice: new(true),
				Inputs: []v1.Input{{Name: "mine", Bus: "virtio"}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Devices.Inputs }, want: []v1.Input{{Name: "mine", Bus: "virtio", Type: "tablet"}},
		},
		{
			name: "input wanted", why: "autoattachInputDevice: true and none named",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{AutoattachInputDevice: new(true)}}},
			got:   func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.Devices.Inputs },
			want:  []v1.Input{{Name: "default-0", Type: "tablet", Bus: "usb"}},
		},
		{
			name: "hyperv dependencies", why: "synictimer needs synic, which needs vpindex",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Features: &v1.Features{Hyperv: &v1.FeatureHyperv{SyNICTimer: &v1.SyNICTimer{}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any {
				return *s.Domain.Features.Hyperv.SyNIC.Enabled && *s.Domain.Features.Hyperv.VPIndex.Enabled
			}, want: true,
		},
		{
			name: "evmcs without vapic", why: "validate refuses it, so nothing is added",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Features: &v1.Features{Hyperv: &v1.FeatureHyperv{
				EVMCS: &v1.FeatureState{}, VAPIC: &v1.FeatureState{Enabled: new(false)}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return len(s.Domain.CPU.Features) }, want: 0,
		},
		{
			name: "a policy of the user's", why: "evmcs needs 'require', but a policy that the user wrote is for validate to refuse",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{CPU: &v1.CPU{Features: []v1.CPUFeature{{Name: "vmx", Policy: "disable"}}},
				Features: &v1.Features{Hyperv: &v1.FeatureHyperv{EVMCS: &v1.FeatureState{}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return s.Domain.CPU.Features[0].Policy }, want: "disable",
		},
		{
			name: "explicit false stays", why: "a switch that the user set stays, for validate to refuse",
			given: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Features: &v1.Features{Hyperv: &v1.FeatureHyperv{
				SyNIC: &v1.FeatureState{}, VPIndex: &v1.FeatureState{Enabled: new(false)}}}}},
			got: func(s v1.VirtualMachineInstanceSpec) any { return *s.Domain.Features.Hyperv.VPIndex.Enabled }, want: false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			vmi := &v1.VirtualMachineInstance{Spec: *test.given.DeepCopy()}
			Apply(vmi, config.Default().Defaults)
			if diff := cmp.Diff(test.want, test.got(vmi.Spec)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
			again := vmi.DeepCopy()
			Apply(again, config.Default().Defaults)
			if diff := cmp.Diff(vmi, again); diff != "" {
				t.Errorf("the second run changes something:\n%s", diff)
			}
		})
	}
}
