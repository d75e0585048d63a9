package instancetype

import (
	"math/big"

	"github.com/kilnvm/kiln/pkg/internal/filled"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of an instancetype: memory.guest (bytes), hugepages, overcommitPercent (0 to 100), maxGuest.

// memoryClaims is validateMemory. KubeVirt reports the first conflict, Kiln all.
func memoryClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) []claim {
	wanted, domain := set.Instancetype.Spec.Memory, path.Child("spec", "domain")
	memory := vmi.Spec.Domain.Memory
	if memory == nil {
		memory = &v1.Memory{}
	}
	at := domain.Child("memory")
	claims := []claim{quantity(at.Child("guest"), memory.Guest, &wanted.Guest)}
	if wanted.Hugepages != nil && memory.Hugepages != nil {
		claims = append(claims, claim{path: at.Child("hugepages"), given: memory.Hugepages.PageSize, wanted: wanted.Hugepages.PageSize,
			same: equality.Semantic.DeepEqual(wanted.Hugepages, memory.Hugepages)})
	}
	if wanted.MaxGuest != nil {
		claims = append(claims, quantity(at.Child("maxGuest"), memory.MaxGuest, wanted.MaxGuest))
	}
	request := podMemory(vmi.Spec.Domain.Resources.Requests, domain.Child("resources", "requests", "memory"), wanted.Guest)
	if wanted.OvercommitPercent > 0 && request.given != nil {
		computed, given := overcommitted(wanted.Guest, wanted.OvercommitPercent), vmi.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
		request.wanted, request.same = computed.String(), computed.Cmp(given) == 0
	}
	limit := podMemory(vmi.Spec.Domain.Resources.Limits, domain.Child("resources", "limits", "memory"), wanted.Guest)
	return append(claims, request, limit)
}

// quantity is the claim to a quantity. Equal amounts in different units, such as 1Gi and 1024Mi, are the same.
func quantity(path *field.Path, given, wanted *resource.Quantity) claim {
	c := claim{path: path, wanted: wanted.String()}
	if given != nil {
		c.given, c.same = given.String(), given.Cmp(*wanted) == 0
	}
	return c
}

// podMemory is podResource for memory.
func podMemory(list corev1.ResourceList, path *field.Path, guest resource.Quantity) claim {
	c := claim{path: path, wanted: guest.String(), same: true}
	if given, found := list[corev1.ResourceMemory]; found {
		c.given = given.String()
	}
	return c
}

// applyMemory is KubeVirt's applyMemory. Only the request of the pod is overcommitted; the guest sees memory.guest in full.
func applyMemory(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	wanted, domain := set.Instancetype.Spec.Memory, &vmi.Spec.Domain
	if domain.Memory == nil {
		domain.Memory = &v1.Memory{}
	}
	guest := wanted.Guest.DeepCopy()
	put(log, &domain.Memory.Guest, &guest)
	if wanted.OvercommitPercent > 0 {
		if domain.Resources.Requests == nil {
			domain.Resources.Requests = corev1.ResourceList{}
		}
		domain.Resources.Requests[corev1.ResourceMemory] = overcommitted(wanted.Guest, wanted.OvercommitPercent)
		log.Key("spec.domain.resources.requests", string(corev1.ResourceMemory))
	}
	if wanted.Hugepages != nil {
		domain.Memory.Hugepages = wanted.Hugepages.DeepCopy()
		log.Note(&domain.Memory.Hugepages, wanted.Hugepages)
	}
	if wanted.MaxGuest != nil {
		ceiling := wanted.MaxGuest.DeepCopy()
		put(log, &domain.Memory.MaxGuest, &ceiling)
	}
}

// overcommitted is the memory request of the pod, in bytes: memory.guest less percent, rounded down. It is computed in whole numbers;
// KubeVirt's 32-bit floats are some bytes off above 16 MiB.
func overcommitted(guest resource.Quantity, percent int) resource.Quantity {
	product := new(big.Int).Mul(big.NewInt(guest.Value()), big.NewInt(int64(100-percent)))
	return *resource.NewQuantity(product.Div(product, big.NewInt(100)).Int64(), guest.Format)
}
