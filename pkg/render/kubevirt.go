package render

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirt returns the record with which a guest that KubeVirt runs boots: the earlier record (nil at the first boot) with a place for each new device of the
// VMI, and without the devices that are gone. It depends only on its arguments: the hook in the guest's pod and the controller get the same result without
// talking to each other. Therefore it uses Kiln's own FrontendDefaults and no facts of a host. KubeVirt decides everything except places.
//
// The machine is copied from the earlier record, because KubeVirt's libvirt decides which version an alias means. Errors name the fields of a VMI that Kiln
// cannot render.
func KubeVirt(vmi *v1.VirtualMachineInstance, earlier *record.Record) (record.Record, field.ErrorList) {
	return KubeVirtOn(vmi, earlier, nil)
}

// KubeVirtOn is KubeVirt with the CPU of the node on which the guest booted, nil if it is not known. The hook does not know the node: a CPU that is not
// recorded yet is libvirt's choice.
func KubeVirtOn(vmi *v1.VirtualMachineInstance, earlier *record.Record, node *v1alpha1.ReportedCPU) (record.Record, field.ErrorList) {
	if earlier != nil {
		vmi = record.UnpinCPU(vmi, earlier.CPU)
	}
	if earlier != nil && len(earlier.OmittedDefaults) > 0 { // KubeVirt gives its devices to each guest, also to one that did without where Kiln ran it
		whole := *earlier
		whole.OmittedDefaults = nil
		earlier = &whole
	}
	defaults := config.Default().Frontend
	defaults.BIOS = config.BIOS{} // KubeVirt writes no strings of the BIOS
	made, errs := FromFacts(Machine{VMI: vmi, Defaults: defaults, Frozen: earlier}, frontend.Facts{CPU: node})
	made.Record.Machine = ""
	if len(errs) > 0 {
		return made.Record, errs
	}
	var before *record.CPU
	if earlier != nil {
		before, made.Record.Machine = earlier.CPU, earlier.Machine
		keepPCIAddresses(made.Record.Devices, earlier.Devices, kubevirt.Chosen(vmi))
	}
	made.Record.CPU = withoutWidth(made.Record.CPU, before)
	return made.Record, nil
}

// withoutWidth returns a CPU with the width of physical addresses that was recorded. KubeVirt's guests have the default, unless Kiln's hook puts a width back.
func withoutWidth(made, before *record.CPU) *record.CPU {
	if made == nil || before == nil && made.PhysicalBits == 0 || before != nil && made.PhysicalBits == before.PhysicalBits {
		return made
	}
	out := *made
	if out.PhysicalBits = 0; before != nil {
		out.PhysicalBits = before.PhysicalBits
		out.Verified = before.Verified && record.DescribeCPUChange(before, &out) == ""
	}
	return &out
}

// keepPCIAddresses gives devices the PCI addresses that they had, even if Kiln assigns none to their model: libvirt puts conventional devices behind a bridge,
// Kiln on the root bus. A new device at such a place leaves the record, and libvirt places it. chosen are the devices whose address the VMI asks for.
func keepPCIAddresses(now, before map[string]record.Address, chosen map[string]bool) {
	taken := map[string]bool{}
	for key, was := range before {
		is, there := now[key]
		if _, port := record.Port(key); (there || port) && was.PCI != "" && !chosen[key] {
			is.PCI, is.Index = was.PCI, was.Index
			now[key], taken[was.PCI] = is, true
		}
	}
	for key, is := range now {
		if _, was := before[key]; !was && taken[is.PCI] {
			delete(now, key)
		}
	}
}
