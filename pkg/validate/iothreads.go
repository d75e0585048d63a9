package validate

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.ioThreadsPolicy, domain.ioThreads.
// A supplemental pool gives its number of threads.
// The rules are validateIOThreadsPolicy of KubeVirt, which has no upper limit: each thread of the pool would be an element of every
// disk.

var iothreadRules = []guestRule{
	{ioThreads, []Rule{
		{Name: "iothreads/policy", MendedBy: byInstancetype},
		{Name: "iothreads/pool-given", MendedBy: byInstancetype},
		{Name: "iothreads/pool", MendedBy: byInstancetype},
		{Name: "iothreads/pool-most", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
	}},
}

// ioThreads ignores ioThreads with another policy, as KubeVirt does; Warnings reports it.
func ioThreads(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	policy := spec.Domain.IOThreadsPolicy
	if policy == nil {
		return nil
	}
	errs := supported(path.Child("domain", "ioThreadsPolicy"), *policy, v1.IOThreadsPolicyShared, v1.IOThreadsPolicyAuto,
		v1.IOThreadsPolicySupplementalPool).WithOrigin("iothreads/policy")
	if *policy != v1.IOThreadsPolicySupplementalPool {
		return errs
	}
	threads := spec.Domain.IOThreads
	at := path.Child("domain", "ioThreads")
	switch {
	case threads == nil:
		errs = append(errs, field.Required(at, "policy 'supplementalPool' needs supplementalPoolThreadCount").WithOrigin("iothreads/pool-given"))
	case threads.SupplementalPoolThreadCount == nil:
		errs = append(errs, field.Required(at.Child("supplementalPoolThreadCount"),
			"policy 'supplementalPool' needs the number of its threads").WithOrigin("iothreads/pool-given"))
	case *threads.SupplementalPoolThreadCount < 1:
		errs = append(errs, field.Invalid(at.Child("supplementalPoolThreadCount"), *threads.SupplementalPoolThreadCount,
			"must be at least 1 with policy 'supplementalPool'").WithOrigin("iothreads/pool"))
	case *threads.SupplementalPoolThreadCount > maxVCPUs:
		errs = append(errs, field.Invalid(at.Child("supplementalPoolThreadCount"), *threads.SupplementalPoolThreadCount,
			fmt.Sprintf("must be at most %d", maxVCPUs)).WithOrigin("iothreads/pool-most"))
	}
	return errs
}
