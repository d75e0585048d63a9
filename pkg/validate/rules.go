package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Rule is a reason for which an object is refused. Its literal stands beside the function that judges.
type Rule struct {
	// Name is the rule's area, a slash, and the mistake. It is the Origin of the rule's errors.
	Name string
	// MendedBy are the objects and steps that may still correct a VMI that the rule refuses, while they are not known.
	MendedBy Mender
	// ControllersMay exempts the accounts that create and manage VMIs (config.Limits.Controllers).
	ControllersMay bool
	// Since and Until are the first and the last version of KubeVirt that has the rule; 0 for no bound. Beside another version the rule refuses nothing.
	Since, Until config.Version
	// NamesArchitecture means that the rule refuses what the architecture of the VMI does not have, and that its messages name the architecture.
	NamesArchitecture bool
	// KubeVirt is what KubeVirt does with the objects that the rule refuses; empty means KubeVirtRefuses.
	KubeVirt KubeVirtVerdict
}

// Area is the field area of a rule: the beginning of its name.
func (r Rule) Area() string {
	area, _, _ := strings.Cut(r.Name, "/")
	return area
}

// Mender is a set of objects and steps that may correct a VMI.
type Mender uint8

const (
	// byCompletion is for a field that is missing in a VMI as the user wrote it: an instancetype, a preference or a default may fill it.
	byCompletion Mender = 1 << iota
	// byInstancetype and byPreference are for a VMI with its defaults: the unknown instancetype or preference may set something else.
	byInstancetype
	byPreference
)

// judgement is a function that judges objects of one kind, with the rules by which it refuses them.
type judgement[F any] struct {
	judge F
	rules []Rule
}

type (
	// guestRule judges one subject of a VMI's spec. path is the spec's.
	guestRule = judgement[func(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList]
	// metadataRule judges a VMI's metadata, with the spec beside it. path is the object that holds metadata and spec.
	metadataRule = judgement[func(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList]
	// vmRule judges what only a VM has. old is nil on create.
	vmRule = judgement[func(vm, old *v1.VirtualMachine, limits config.Limits) field.ErrorList]
	// changeRule judges a change of a VMI.
	changeRule = judgement[func(change GuestChange, limits config.Limits) field.ErrorList]
)

// Rules of a VMI in the order of their errors. They are independent: none relies on another having passed.
var (
	guestRules = slices.Concat(
		machineRules, cpuRules,
		memoryRules, numaGrowthRules, overheadRules, resourcesRules, otherResourceRules,
		firmwareRules, clockRules,
		diskRules, driverRules, blockSizeRules, diskVolumeRules,
		volumeRules, volumeUseRules, volumeSourceRules, volumeReferenceRules, cloudInitRules, filesystemRules, utilityVolumeRules,
		networkRules, interfaceRules, acpiIndexRules, portRules, dhcpRules,
		hostdeviceRules, claimRules,
		deviceRules, deviceNameRules, deviceArchitectureRules,
		featureRules, iothreadRules, encryptionRules, credentialRules,
		nameRules, dnsRules, schedulingRules, affinityRules,
	)
	metadataRules = slices.Concat(labelRules, graceRules, numaNodeRules, kubeVirtGuestRules)
)

// declared are all rules by name.
var declared = byName(
	rulesOf(guestRules), rulesOf(metadataRules), rulesOf(growthRules), rulesOf(quoteRules),
	rulesOf(vmRules), rulesOf(vmStatusRules), rulesOf(createRules), rulesOf(changeRules), rulesOf(statusRules),
	rulesOf(instancetypeRules), rulesOf(preferenceRules), rulesOf(presetRules), rulesOf(recordRules), rulesOf(countRules), rulesOf(embeddedRules),
)

// holdsFor reports whether a version of KubeVirt has the rule.
func (r Rule) holdsFor(version config.Version) bool {
	version = version.Nearest()
	return version >= r.Since && (r.Until == 0 || version <= r.Until)
}

// ofVersion drops the errors of rules that the version of KubeVirt does not have.
func ofVersion(errs field.ErrorList, version config.Version) field.ErrorList {
	if len(errs) == 0 {
		return nil // as for most VMIs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return !declared[err.Origin].holdsFor(version) })
}

func rulesOf[F any](all []judgement[F]) (rules []Rule) {
	for _, j := range all {
		rules = append(rules, j.rules...)
	}
	return rules
}

func byName(lists ...[]Rule) map[string]Rule {
	all := map[string]Rule{}
	for _, rule := range slices.Concat(lists...) {
		all[rule.Name] = rule
	}
	return all
}

// Rules returns all rules, in the order of their names.
func Rules() []Rule {
	return slices.SortedFunc(maps.Values(declared), func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
}
