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

// Fields of a size: memory.guest (bytes), hugepages, overcommitPercent (0 to 100), maxGuest.

func memoryClaims(set Set, vmi *v1.VirtualMachineInstance, path *field.Path) []claim {
	size, domain := set.Instancetype.Spec.Memory, path.Child("spec", "domain")
	memory := vmi.Spec.Domain.Memory
	if memory == nil {
		memory = &v1.Memory{}
	}
	at := domain.Child("memory")
	claims := []claim{quantity(at.Child("guest"), memory.Guest, &size.Guest)}
	if size.Hugepages != nil && memory.Hugepages != nil {
		claims = append(claims, claim{path: at.Child("hugepages"), given: memory.Hugepages.PageSize, size: size.Hugepages.PageSize,
			same: equality.Semantic.DeepEqual(size.Hugepages, memory.Hugepages)})
	}
	if size.MaxGuest != nil {
		claims = append(claims, quantity(at.Child("maxGuest"), memory.MaxGuest, size.MaxGuest))
	}
	request := podMemory(vmi.Spec.Domain.Resources.Requests, domain.Child("resources", "requests", "memory"), size.Guest)
	if size.OvercommitPercent > 0 && request.given != nil {
		wanted, given := overcommitted(size.Guest, size.OvercommitPercent), vmi.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
		request.size, request.same = wanted.String(), wanted.Cmp(given) == 0
	}
	limit := podMemory(vmi.Spec.Domain.Resources.Limits, domain.Child("resources", "limits", "memory"), size.Guest)
	return append(claims, request, limit)
}

func quantity(path *field.Path, given, size *resource.Quantity) claim {
	c := claim{path: path, size: size.String()}
	if given != nil {
		c.given, c.same = given.String(), given.Cmp(*size) == 0
	}
	return c
}

// podMemory is to memory what podResource is to CPUs.
func podMemory(list corev1.ResourceList, path *field.Path, guest resource.Quantity) claim {
	c := claim{path: path, size: guest.String(), same: true}
	if given, found := list[corev1.ResourceMemory]; found {
		c.given = given.String()
	}
	return c
}

func applyMemory(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	size, domain := set.Instancetype.Spec.Memory, &vmi.Spec.Domain
	if domain.Memory == nil {
		domain.Memory = &v1.Memory{}
	}
	guest := size.Guest.DeepCopy()
	put(log, &domain.Memory.Guest, &guest)
	if size.OvercommitPercent > 0 {
		if domain.Resources.Requests == nil {
			domain.Resources.Requests = corev1.ResourceList{}
		}
		domain.Resources.Requests[corev1.ResourceMemory] = overcommitted(size.Guest, size.OvercommitPercent)
		log.Key("spec.domain.resources.requests", string(corev1.ResourceMemory))
	}
	if size.Hugepages != nil {
		domain.Memory.Hugepages = size.Hugepages.DeepCopy()
		log.Note(&domain.Memory.Hugepages, size.Hugepages)
	}
	if size.MaxGuest != nil {
		ceiling := size.MaxGuest.DeepCopy()
		put(log, &domain.Memory.MaxGuest, &ceiling)
	}
}

// overcommitted is what the pod asks for when the guest gets more than that, rounded down to a byte. Whole numbers: through
// floating point, sizes above 16 MiB would come out a few bytes off.
func overcommitted(guest resource.Quantity, percent int) resource.Quantity {
	product := new(big.Int).Mul(big.NewInt(guest.Value()), big.NewInt(int64(100-percent)))
	return *resource.NewQuantity(product.Div(product, big.NewInt(100)).Int64(), guest.Format)
}
