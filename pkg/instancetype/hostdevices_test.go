package instancetype

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Devices of a VMI do not conflict when they are the instancetype's, with what defaults and preferences have filled in since.
func TestDevicesAppliedBefore(t *testing.T) {
	set := Set{Instancetype: medium(func(s *v1beta1.VirtualMachineInstancetypeSpec) {
		s.GPUs = []v1.GPU{{Name: "a", DeviceName: "vendor.com/a", VirtualGPUOptions: &v1.VGPUOptions{Display: &v1.VGPUDisplayOptions{}}}}
		s.HostDevices = []v1.HostDevice{{Name: "h", DeviceName: "vendor.com/h"}}
	})}
	for _, test := range []struct {
		name, why string
		change    func(*v1.Devices)
		want      []string
	}{
		{"as applied", "", func(*v1.Devices) {}, nil},
		{"display filled", "a default is filled after the instancetype",
			func(d *v1.Devices) { d.GPUs[0].VirtualGPUOptions.Display.RamFB = &v1.FeatureState{Enabled: new(true)} }, nil},
		{"another GPU", "", func(d *v1.Devices) { d.GPUs[0].DeviceName = "vendor.com/b" }, []string{"spec.domain.devices.gpus"}},
		{"a GPU by claim", "another device may be behind it", func(d *v1.Devices) { d.GPUs[0].ClaimRequest = &v1.ClaimRequest{ClaimName: "c"} },
			[]string{"spec.domain.devices.gpus"}},
		{"a GPU more", "", func(d *v1.Devices) { d.GPUs = append(d.GPUs, v1.GPU{Name: "b"}) }, []string{"spec.domain.devices.gpus"}},
		{"another host device", "", func(d *v1.Devices) { d.HostDevices[0].Tag = "t" }, []string{"spec.domain.devices.hostDevices"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			vmi := guest(func(*v1.DomainSpec) {})
			Apply(set, config.Newest, vmi)
			test.change(&vmi.Spec.Domain.Devices)
			if diff := cmp.Diff(test.want, fields(Differences(set, vmi, nil))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.why, diff)
			}
		})
	}
}
