package instancetype_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// maxSockets of an instancetype is capped: once the preference arranges its vCPUs as cores, all sockets have more vCPUs than the machine may.
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
			given, cores := &instancetype.Instancetype{}, v1beta1.Cores
			given.Spec.CPU = v1beta1.CPUInstancetype{Guest: test.guest, MaxSockets: &test.most}
			preference := &instancetype.Preference{}
			preference.Spec.CPU = &v1beta1.CPUPreferences{PreferredCPUTopology: &cores}
			set, vmi := instancetype.Set{Instancetype: given, Preference: preference}, &v1.VirtualMachineInstance{}
			vmi.Spec.Architecture = test.architecture
			instancetype.Apply(set, config.Newest, vmi)
			if got := vmi.Spec.Domain.CPU.MaxSockets; got != test.want {
				t.Errorf("maxSockets is %d, want %d", got, test.want)
			}
			if errs := instancetype.Differences(set, vmi, nil); len(errs) > 0 {
				t.Errorf("admitted again, the VMI differs from its instancetype: %v", errs)
			}
		})
	}
}

// An empty model and maxSockets of 0 leave both to the cluster, whose defaults do not conflict with the instancetype.
func TestEmptyFieldsOfASizeAreUnset(t *testing.T) {
	model, sockets := "", uint32(0)
	given := &instancetype.Instancetype{}
	given.Spec.CPU = v1beta1.CPUInstancetype{Guest: 2, Model: &model, MaxSockets: &sockets}
	set, vmi := instancetype.Set{Instancetype: given}, &v1.VirtualMachineInstance{}
	instancetype.Apply(set, config.Newest, vmi)
	vmi.Spec.Domain.CPU.Model, vmi.Spec.Domain.CPU.MaxSockets = "host-model", 8
	if errs := instancetype.Differences(set, vmi, nil); len(errs) > 0 {
		t.Errorf("the cluster's defaults differ from the instancetype: %v", errs)
	}
	instancetype.Apply(set, config.Newest, vmi)
	if cpu := vmi.Spec.Domain.CPU; cpu.Model != "host-model" || cpu.MaxSockets != 8 {
		t.Errorf("applied again, the instancetype cleared the defaults: model '%s', %d sockets", cpu.Model, cpu.MaxSockets)
	}
}
