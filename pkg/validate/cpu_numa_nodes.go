package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the annotation kilnvm.io/numa-cells, the number of NUMA nodes of the guest. Each node has whole sockets and an equal share of the
// memory, in whole huge pages, or in whole MiB, which is QEMU's granularity.
// KubeVirt has no such field: its only one, numa.guestMappingPassthrough, mirrors the host's NUMA nodes. The annotation is metadata of
// a VMI, so a template or an instancetype can set it too.

var numaNodeRules = []metadataRule{
	{ownNUMANodes, []Rule{
		{Name: "cpu/numa-nodes-architecture", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype, NamesArchitecture: true},
		{Name: "cpu/numa-nodes-mirrored", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
		{Name: "cpu/numa-nodes-number", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
		{Name: "cpu/numa-nodes-sockets", KubeVirt: KubeVirtAdmits, MendedBy: byCompletion | byInstancetype | byPreference},
		{Name: "memory/numa-nodes", KubeVirt: KubeVirtAdmits, MendedBy: byCompletion | byInstancetype},
	}},
}

// ownNUMANodes requires whole sockets for each node, because no kernel expects a socket in two nodes.
func ownNUMANodes(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	text := vmi.Annotations[v1alpha1.AnnotationNUMACells]
	if text == "" {
		return nil
	}
	at := path.Child("metadata", "annotations").Key(v1alpha1.AnnotationNUMACells)
	if vmi.Spec.Architecture == s390x {
		errs = append(errs, field.Forbidden(at, "architecture 's390x' has no NUMA nodes: remove the annotation").WithOrigin("cpu/numa-nodes-architecture"))
	}
	if vm.MirrorsNUMA(vmi.Spec.Domain.CPU) {
		errs = append(errs,
			field.Forbidden(at,
				"cannot be combined with cpu.numa.guestMappingPassthrough, which mirrors the host's NUMA nodes: remove one of them").WithOrigin("cpu/numa-nodes-mirrored"))
	}
	nodes, ok := vm.NUMANodes(vmi)
	if !ok {
		return append(errs, field.Invalid(at, text, fmt.Sprintf("must be a number from 1 to %d", vm.MaxNUMANodes)).WithOrigin("cpu/numa-nodes-number"))
	}
	if sockets, _, _ := vm.Topology(vmi.Spec.Domain.CPU); uint(sockets)%nodes != 0 {
		errs = append(errs,
			field.Invalid(at, text, fmt.Sprintf("%d sockets cannot be divided equally among %d NUMA nodes: choose a number of nodes that divides the sockets",
				sockets, nodes)).WithOrigin("cpu/numa-nodes-sockets"))
	}
	return append(errs, memoryOfNUMANodes(vmi.Spec.Domain.Memory, nodes, path.Child("spec", "domain", "memory", "guest"))...)
}

// memoryOfNUMANodes ignores an invalid page size, which rule memory/page-size refuses.
// Package frontend divides the memory: what remains of a division goes page by page to the first nodes, so huge pages must be whole.
func memoryOfNUMANodes(memory *v1.Memory, nodes uint, at *field.Path) field.ErrorList {
	if memory == nil || memory.Guest == nil || memory.Guest.Sign() <= 0 {
		return nil
	}
	page := int64(1 << 20)
	if memory.Hugepages != nil {
		if size, err := resource.ParseQuantity(memory.Hugepages.PageSize); err == nil {
			page = max(page, size.Value())
		}
	}
	total := memory.Guest.Value()
	if total/page >= int64(nodes) && (page == 1<<20 || total%page == 0) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, memory.Guest.String(),
		fmt.Sprintf("must be whole pages of %[2]d KiB, at least one for each of %[1]d NUMA nodes", nodes, page>>10)).WithOrigin("memory/numa-nodes")}
}
