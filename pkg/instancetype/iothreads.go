package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of an instancetype: ioThreadsPolicy, ioThreads.supplementalPoolThreadCount. The API has no other field in ioThreads.

// ownedIOThreadFields returns the fields of applyIOThreads and applyIOThreadPolicy.
func ownedIOThreadFields(set Set, vmi *v1.VirtualMachineInstance) (fields []ownedField) {
	wanted := set.Instancetype.Spec
	if count := poolSize(wanted.IOThreads); count != nil {
		c := ownedField{field: "spec.domain.ioThreads.supplementalPoolThreadCount", wanted: *count}
		if given := poolSize(vmi.Spec.Domain.IOThreads); given != nil {
			c.given, c.same = *given, *given == *count
		}
		fields = append(fields, c)
	}
	if wanted.IOThreadsPolicy != nil {
		c := ownedField{field: "spec.domain.ioThreadsPolicy", wanted: *wanted.IOThreadsPolicy}
		if given := vmi.Spec.Domain.IOThreadsPolicy; given != nil {
			c.given, c.same = *given, *given == *wanted.IOThreadsPolicy
		}
		fields = append(fields, c)
	}
	return fields
}

func poolSize(threads *v1.DiskIOThreads) *uint32 {
	if threads == nil {
		return nil
	}
	return threads.SupplementalPoolThreadCount
}

func applyIOThreads(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	domain := &vmi.Spec.Domain
	if count := poolSize(set.Instancetype.Spec.IOThreads); count != nil {
		if domain.IOThreads == nil {
			domain.IOThreads = &v1.DiskIOThreads{}
		}
		fillPointer(log, &domain.IOThreads.SupplementalPoolThreadCount, count)
	}
	fillPointer(log, &domain.IOThreadsPolicy, set.Instancetype.Spec.IOThreadsPolicy)
}
