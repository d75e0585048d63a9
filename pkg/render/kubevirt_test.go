package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// TestCPUOfKubeVirt: the record of a guest that KubeVirt runs has the CPU of the node of its first boot. Later boots keep it, also if the VMI asks for it by
// model and features, and if the guest is larger than the CPU's default width of addresses: KubeVirt writes no width.
func TestCPUOfKubeVirt(t *testing.T) {
	t.Parallel()
	vmi := takenMachine(t).VMI
	memory := *vmi.Spec.Domain.Memory.Guest
	memory.Set(2 << 40)
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	node := &v1alpha1.ReportedCPU{Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"}}
	unknown, errs := KubeVirt(vmi, nil)
	if len(errs) > 0 || unknown.CPU != nil {
		t.Fatalf("%v, CPU %+v", errs, unknown.CPU)
	}
	first, errs := KubeVirtOn(vmi, nil, node)
	want := &record.CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm"},
		Topology: record.Topology{Sockets: 1, Cores: 2, Threads: 1}}
	if diff := cmp.Diff(want, first.CPU); len(errs) > 0 || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", errs, diff)
	}
	first.CPU.Verified = true
	pinned := vmi.DeepCopy()
	record.PinCPU(pinned, first.CPU, true)
	for why, later := range map[string]*v1.VirtualMachineInstance{"as it was": vmi, "with the pin": pinned} {
		again, errs := KubeVirtOn(later, &first, &v1alpha1.ReportedCPU{Model: "EPYC-Rome", Features: []string{"clwb"}})
		if diff := cmp.Diff(first.CPU, again.CPU); len(errs) > 0 || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", why, errs, diff)
		}
	}
	wide := first.DeepCopy() // Kiln ran it once
	wide.CPU.PhysicalBits = 46
	if again, errs := KubeVirt(vmi, wide); len(errs) > 0 || again.CPU.PhysicalBits != 46 {
		t.Errorf("%v, %+v", errs, again.CPU)
	}
	edited := pinned.DeepCopy()
	edited.Spec.Domain.CPU.Model, edited.Spec.Domain.CPU.Features = v1.CPUModeHostModel, []v1.CPUFeature{{Name: "svm", Policy: "disable"}}
	again, errs := KubeVirt(edited, &first)
	if len(errs) > 0 || again.CPU.Verified || !cmp.Equal(again.CPU.Features, []string{"avx2"}) || !cmp.Equal(again.CPU.DisabledFeatures, []string{"svm"}) {
		t.Errorf("without svm: %v, %+v", errs, again.CPU)
	}
}

// TestDefaultsOfKubeVirt: a guest whose record omits defaults of Kiln has them when KubeVirt runs it, and a place for each.
func TestDefaultsOfKubeVirt(t *testing.T) {
	t.Parallel()
	vmi := takenMachine(t).VMI
	whole, errs := KubeVirt(vmi, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	earlier := whole.DeepCopy()
	earlier.OmittedDefaults = []string{record.OmittedGuestAgent, record.OmittedSCSI, record.OmittedVirtioSerial}
	for _, key := range earlier.OmittedDefaults {
		delete(earlier.Devices, key)
	}
	again, errs := KubeVirt(vmi, earlier)
	for _, key := range earlier.OmittedDefaults {
		if _, has := again.Devices[key]; len(errs) > 0 || !has || again.OmittedDefaults != nil {
			t.Errorf("%v: %s has a place: %t, and the record omits %q", errs, key, has, again.OmittedDefaults)
		}
	}
	if len(earlier.OmittedDefaults) != 3 {
		t.Error("the earlier record was written to")
	}
}
