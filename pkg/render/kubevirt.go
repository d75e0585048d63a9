package render

import (
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
	made, errs := FromFacts(Machine{VMI: vmi, Defaults: config.Default().Frontend, Frozen: earlier}, frontend.Facts{})
	made.Record.Machine = ""
	if earlier != nil && len(errs) == 0 {
		made.Record.Machine = earlier.Machine
		keepPCIAddresses(made.Record.Devices, earlier.Devices, kubevirt.Chosen(vmi))
	}
	return made.Record, errs
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
