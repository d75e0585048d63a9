package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Rule is a reason for which an object is refused. All that is known about it stands in its literal, beside the function that judges.
type Rule struct {
	// Name is the rule's area, a slash, and what is wrong. An error bears it as its Origin.
	Name string
	// MendedBy says what may still mend a guest that the rule refuses, where that is not known yet.
	MendedBy Mender
	// ControllersMay says that the rule does not hold for the accounts that make and manage guests.
	ControllersMay bool
}

// Area is the field area of a rule: the beginning of its name.
func (r Rule) Area() string {
	area, _, _ := strings.Cut(r.Name, "/")
	return area
}

// Mender is a set of what may mend a guest.
type Mender uint8

const (
	// byCompletion is for a field that is missing as long as a guest is judged as it is written: an instancetype, a preference or a
	// default may fill it.
	byCompletion Mender = 1 << iota
	// byInstancetype and byPreference are for a guest that has its defaults: the one that is not known yet may set something else.
	byInstancetype
	byPreference
)

// judgement is a function that judges objects of one kind, with the rules by which it refuses them.
type judgement[F any] struct {
	judge F
	rules []Rule
}

type (
	// guestRule judges one subject of a guest's spec. path is the spec's.
	guestRule = judgement[func(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList]
	// metadataRule judges what a guest's metadata says. path is the object that holds metadata and spec.
	metadataRule = judgement[func(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) field.ErrorList]
	// vmRule judges what only a VM has. old is nil on create.
	vmRule = judgement[func(vm, old *v1.VirtualMachine, limits config.Limits) field.ErrorList]
	// changeRule judges a change of a VMI.
	changeRule = judgement[func(change GuestChange, limits config.Limits) field.ErrorList]
)

// Rules of a guest in the order of their errors. They are independent: none relies on another having passed.
var (
	guestRules = slices.Concat(
		machineRules, cpuRules,
		memoryRules, numaGrowthRules, overheadRules, resourcesRules,
		firmwareRules, clockRules,
		diskRules, driverRules, blockSizeRules, diskVolumeRules, volumeRules, volumeUseRules, volumeSourceRules, cloudInitRules, filesystemRules, utilityVolumeRules,
		networkRules, interfaceRules, acpiIndexRules, portRules, dhcpRules,
		hostdeviceRules, claimRules,
		deviceRules, deviceNameRules, deviceArchitectureRules,
		featureRules, iothreadRules, encryptionRules, credentialRules,
		nameRules, dnsRules, placementRules, affinityRules,
	)
	metadataRules = slices.Concat(labelRules, graceRules, numaNodeRules)
)

// declared are all rules by name.
var declared = byName(
	rulesOf(guestRules), rulesOf(metadataRules), rulesOf(growthRules), rulesOf(quoteRules),
	rulesOf(vmRules), rulesOf(vmStatusRules), rulesOf(createRules), rulesOf(changeRules), rulesOf(statusRules),
	rulesOf(instancetypeRules), rulesOf(preferenceRules), rulesOf(presetRules), rulesOf(recordRules), rulesOf(countRules),
)

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

// Rules are all rules, in the order of their names.
func Rules() []Rule {
	return slices.SortedFunc(maps.Values(declared), func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
}
