package instancetype

import (
	"math/big"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of an instancetype: memory.guest (bytes), hugepages, overcommitPercent (0 to 100), maxGuest.

// ownedMemoryFields is validateMemory. KubeVirt reports only the first conflict.
func ownedMemoryFields(set Set, vmi *v1.VirtualMachineInstance) []ownedField {
	wanted := set.Instancetype.Spec.Memory
	memory := vmi.Spec.Domain.Memory
	if memory == nil {
		memory = &v1.Memory{}
	}
	fields := []ownedField{ownedQuantity("spec.domain.memory.guest", memory.Guest, &wanted.Guest)}
	if wanted.Hugepages != nil && memory.Hugepages != nil {
		fields = append(fields, ownedField{field: "spec.domain.memory.hugepages", given: memory.Hugepages.PageSize, wanted: wanted.Hugepages.PageSize,
			same: equality.Semantic.DeepEqual(wanted.Hugepages, memory.Hugepages)})
	}
	if wanted.MaxGuest != nil {
		fields = append(fields, ownedQuantity("spec.domain.memory.maxGuest", memory.MaxGuest, wanted.MaxGuest))
	}
	request := podMemory(vmi.Spec.Domain.Resources.Requests, "spec.domain.resources.requests.memory", wanted.Guest)
	if wanted.OvercommitPercent > 0 && request.given != nil {
		computed, given := overcommittedRequest(wanted.Guest, wanted.OvercommitPercent), vmi.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
		request.wanted, request.same = computed.String(), computed.Cmp(given) == 0 || given.Value() == overcommittedByKubeVirt(wanted.Guest, wanted.OvercommitPercent)
	}
	limit := podMemory(vmi.Spec.Domain.Resources.Limits, "spec.domain.resources.limits.memory", wanted.Guest)
	return append(fields, request, limit)
}

// ownedQuantity returns the owned field of a quantity. Equal amounts in different units, such as 1Gi and 1024Mi, are the same.
func ownedQuantity(field string, given, wanted *resource.Quantity) ownedField {
	if given == nil {
		return ownedField{}
	}
	return ownedField{field: field, given: given.String(), wanted: wanted.String(), same: given.Cmp(*wanted) == 0}
}

// podMemory is podResource for memory.
func podMemory(list corev1.ResourceList, field string, guest resource.Quantity) ownedField {
	given, found := list[corev1.ResourceMemory]
	if !found {
		return ownedField{}
	}
	return ownedField{field: field, given: given.String(), wanted: guest.String(), same: true}
}

// applyMemory is KubeVirt's applyMemory. Only the request of the pod is overcommitted; the guest sees memory.guest in full.
func applyMemory(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	wanted, domain := set.Instancetype.Spec.Memory, &vmi.Spec.Domain
	if domain.Memory == nil {
		domain.Memory = &v1.Memory{}
	}
	guest := wanted.Guest.DeepCopy()
	putValue(log, &domain.Memory.Guest, &guest)
	if wanted.OvercommitPercent > 0 {
		if domain.Resources.Requests == nil {
			domain.Resources.Requests = corev1.ResourceList{}
		}
		domain.Resources.Requests[corev1.ResourceMemory] = overcommittedRequest(wanted.Guest, wanted.OvercommitPercent)
		log.Key("spec.domain.resources.requests", string(corev1.ResourceMemory))
	}
	if wanted.Hugepages != nil {
		domain.Memory.Hugepages = wanted.Hugepages.DeepCopy()
		log.Note(&domain.Memory.Hugepages, wanted.Hugepages)
	}
	if wanted.MaxGuest != nil {
		ceiling := wanted.MaxGuest.DeepCopy()
		putValue(log, &domain.Memory.MaxGuest, &ceiling)
	}
}

// overcommittedRequest returns the memory request of the pod, in bytes: memory.guest less percent, rounded down. It is computed in whole numbers;
// KubeVirt's 32-bit floats are some bytes off above 16 MiB.
func overcommittedRequest(guest resource.Quantity, percent int) resource.Quantity {
	product := new(big.Int).Mul(big.NewInt(guest.Value()), big.NewInt(int64(100-percent)))
	return *resource.NewQuantity(product.Div(product, big.NewInt(100)).Int64(), guest.Format)
}

// overcommittedByKubeVirt returns the memory request that KubeVirt computes (applyMemory of pkg/instancetype/apply, v1.9). If KubeVirt runs the guests, it has
// expanded the VMIs that admission sees.
func overcommittedByKubeVirt(guest resource.Quantity, percent int) int64 {
	return int64(float32(guest.Value()) * (1 - float32(percent)/100))
}
