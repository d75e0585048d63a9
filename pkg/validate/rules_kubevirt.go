package validate

// KubeVirtVerdict is what the webhooks and schemas of KubeVirt do with the objects that a rule refuses. Recorded answers of KubeVirt (test/conformance) and
// answers of its virt-api (test/beside) are compared with it. docs/reference/deviations.md has the reasons for all but KubeVirtRefuses.
type KubeVirtVerdict string

const (
	// KubeVirtRefuses means that KubeVirt refuses the object as well.
	KubeVirtRefuses KubeVirtVerdict = "refuses"
	// KubeVirtRefusesVMI means that KubeVirt admits some VMs, and refuses the VMI when the VM starts.
	KubeVirtRefusesVMI KubeVirtVerdict = "refuses the VMI"
	// KubeVirtRefusesSome means that KubeVirt refuses some of the objects.
	KubeVirtRefusesSome KubeVirtVerdict = "refuses some"
	// KubeVirtAdmits means that KubeVirt has no such rule.
	KubeVirtAdmits KubeVirtVerdict = "admits"
)

// KubeVirtOn returns what KubeVirt does with the objects that the rule with this name refuses, whichever package declares the rule.
func KubeVirtOn(rule string) KubeVirtVerdict {
	if own, is := declared[rule]; is && own.KubeVirt == "" {
		return KubeVirtRefuses
	} else if is {
		return own.KubeVirt
	}
	switch rule { // the rules of packages pkg/admit, pkg/instancetype, internal/resolve
	case "vm/instancetype-conflict", "vm/inference", "request/unreadable": // virt-api cannot decode the last one
		return KubeVirtRefuses
	case "vm/preference-requirement":
		return KubeVirtRefusesSome
	case "preset/conflict":
		return KubeVirtRefusesVMI
	}
	return KubeVirtAdmits
}
