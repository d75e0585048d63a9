package admit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// A user who overrides a size and makes another mistake learns of both, and of the overridden field only once.
func TestConflictsHideNothing(t *testing.T) {
	var size instancetype.Instancetype
	size.Kind, size.Name = "VirtualMachineClusterInstancetype", "small"
	size.Spec.CPU.Guest, size.Spec.Memory.Guest = 2, resource.MustParse("1Gi")
	negative, always := resource.MustParse("-1"), v1.RunStrategyAlways
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{
		RunStrategy:  &always,
		Instancetype: &v1.InstancetypeMatcher{Name: "small"},
		Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{
			CPU:     &v1.CPU{Cores: 4},
			Memory:  &v1.Memory{Guest: &negative},
			Devices: v1.Devices{Disks: []v1.Disk{{Name: "missing"}}},
		}}},
	}}
	_, verdict := admit.VM(vm, nil, admit.Input{Set: instancetype.Set{Instancetype: &size}, Cluster: config.Default()})
	var got []string
	for _, err := range verdict.Errors {
		got = append(got, err.Field)
	}
	want := []string{
		"spec.template.spec.domain.cpu.cores",
		"spec.template.spec.domain.memory.guest",
		"spec.template.spec.domain.devices.disks[0].name",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestRefusedFieldsHaveNoWarnings: the only message about a field of a VM that is refused is the error.
func TestRefusedFieldsHaveNoWarnings(t *testing.T) {
	memory, always := resource.MustParse("1Gi"), v1.RunStrategyAlways
	for strategy, want := range map[v1.EvictionStrategy]struct{ errors, warnings int }{"LiveMigrat": {1, 0}, v1.EvictionStrategyLiveMigrate: {0, 1}} {
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{
			Spec: v1.VirtualMachineInstanceSpec{EvictionStrategy: &strategy, Domain: v1.DomainSpec{Memory: &v1.Memory{Guest: &memory}}}}}}
		_, verdict := admit.VM(vm, nil, admit.Input{Cluster: config.Default()})
		if len(verdict.Errors) != want.errors || len(verdict.Warnings) != want.warnings {
			t.Errorf("%s: errors %v, warnings %q", strategy, verdict.Errors, verdict.Warnings)
		}
	}
}
