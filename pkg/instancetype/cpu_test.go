package instancetype_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// The sockets that a size may grow to are more than its machine has room for once the preference arranges its vCPUs as cores.
func TestMaxSocketsOfASizeFitItsMachine(t *testing.T) {
	for _, test := range []struct {
		name, architecture string
		guest, most, want  uint32
	}{
		{"room for all", "amd64", 4, 8, 8},
		{"16 sockets of 16 cores are 256 vCPUs", "amd64", 16, 16, 15},
		{"not known yet, and amd64 by default", "", 16, 16, 15},
		{"a mainframe has 248", "s390x", 16, 16, 15},
		{"no limit is known", "arm64", 16, 16, 16},
		{"too many to begin with is for validation to say", "amd64", 300, 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			size, cores := &instancetype.Instancetype{}, v1beta1.Cores
			size.Spec.CPU = v1beta1.CPUInstancetype{Guest: test.guest, MaxSockets: &test.most}
			preference := &instancetype.Preference{}
			preference.Spec.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: &cores}
			set, vmi := instancetype.Set{Instancetype: size, Preference: preference}, &v1.VirtualMachineInstance{}
			vmi.Spec.Architecture = test.architecture
			instancetype.Apply(set, vmi)
			if got := vmi.Spec.Domain.CPU.MaxSockets; got != test.want {
				t.Errorf("maxSockets is %d, want %d", got, test.want)
			}
			if errs := instancetype.Differences(set, vmi, nil); len(errs) > 0 {
				t.Errorf("admitted again, the guest differs from its size: %v", errs)
			}
		})
	}
}

// A size that names no model and no sockets leaves them to the cluster, whose defaults are then no conflict with it.
func TestEmptyFieldsOfASizeAreUnset(t *testing.T) {
	model, sockets := "", uint32(0)
	size := &instancetype.Instancetype{}
	size.Spec.CPU = v1beta1.CPUInstancetype{Guest: 2, Model: &model, MaxSockets: &sockets}
	set, vmi := instancetype.Set{Instancetype: size}, &v1.VirtualMachineInstance{}
	instancetype.Apply(set, vmi)
	vmi.Spec.Domain.CPU.Model, vmi.Spec.Domain.CPU.MaxSockets = "host-model", 8
	if errs := instancetype.Differences(set, vmi, nil); len(errs) > 0 {
		t.Errorf("the cluster's defaults differ from the size: %v", errs)
	}
	instancetype.Apply(set, vmi)
	if cpu := vmi.Spec.Domain.CPU; cpu.Model != "host-model" || cpu.MaxSockets != 8 {
		t.Errorf("applied again, the size took the defaults away: model '%s', %d sockets", cpu.Model, cpu.MaxSockets)
	}
}
