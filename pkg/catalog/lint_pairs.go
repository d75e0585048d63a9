package catalog

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var pairRules = []Rule{
	{"catalog/requirement", Warning, "an instancetype of the catalog meets the requirements of each preference",
		"add an instancetype that is large enough, or lower spec.requirements"},
	{"catalog/unusable-preference", Warning, "each preference boots with an instancetype of the catalog", "change what is refused in one of both"},
	{"catalog/unusable-instancetype", Warning, "each instancetype boots with a preference of the catalog",
		"enlarge the instancetype, or add a preference that it boots with"},
}

// lintPairs finds instancetypes that boot with no preference, and the reverse. A catalog of only instancetypes or only preferences is meant to be used with
// another catalog, and not judged.
func (l *linter) lintPairs() {
	instancetypes, preferences := l.usableObjects()
	if len(instancetypes) == 0 || len(preferences) == 0 {
		return
	}
	// An object that boots nowhere has a finding of its own, and is not among the usable objects.
	for _, o := range preferences {
		if l.lacksTrials() {
			continue
		}
		fitting, errs, booted := l.findPartner(o, instancetypes)
		switch {
		case booted:
		case fitting == 0:
			l.addFinding("catalog/requirement", location{o, "spec.requirements"}, "no instancetype of the catalog meets its requirements: "+requirementsText(o))
		default:
			l.addFinding("catalog/unusable-preference", location{o, "spec"}, fmt.Sprintf("it boots with none of the %d instancetypes that it may be used with: %s",
				fitting, reasonsOf(errs)))
		}
	}
	for _, o := range instancetypes {
		if l.lacksTrials() {
			continue
		}
		fitting, errs, booted := l.findPartner(o, preferences)
		switch {
		case booted:
		case fitting == 0:
			l.addFinding("catalog/unusable-instancetype", location{o, "spec"},
				"every preference of the catalog requires more, or a number of vCPUs that is a multiple of another one")
		default:
			l.addFinding("catalog/unusable-instancetype", location{o, "spec"}, fmt.Sprintf("it boots with none of the %d preferences whose requirements it meets: %s",
				fitting, reasonsOf(errs)))
		}
	}
}

// lacksTrials reports whether no trials are left. It then counts the object that is not tried.
func (l *linter) lacksTrials() bool {
	if l.trials.left > 0 {
		return false
	}
	l.untried++
	return true
}

// findPartner reports whether a VM boots that names o and any of the others. It returns how many of the others fit, and why the first of them does not boot.
// If no trials are left, it reports that the VM boots.
func (l *linter) findPartner(o *Object, others []*Object) (fitting int, errs field.ErrorList, booted bool) {
	for _, other := range others {
		both := joinSets(l.sets[o], l.sets[other])
		if !o.sharesNamespace(other) || !instancetype.Fits(both) {
			continue
		}
		fitting++
		for _, architecture := range architecturesOf(o, other) {
			if l.trials.left <= 0 {
				return fitting, nil, true // not known: a warning would be a guess
			}
			_, refused := l.trials.bootVM(trialVM{Set: both, architecture: architecture}, nil)
			if len(refused) == 0 {
				return fitting, nil, true
			}
			if errs == nil {
				errs = refused
			}
		}
	}
	return fitting, errs, false
}

// requirementsText returns the requirements of a preference in words. A preference without requirements can also refuse an instancetype: the topology
// 'spread' must be able to divide the number of vCPUs.
func requirementsText(o *Object) string {
	var words string
	if need := o.Preference.Requirements; need != nil {
		if need.CPU != nil {
			words = fmt.Sprintf("%d vCPUs", need.CPU.Guest)
		}
		if need.Memory != nil {
			if words != "" {
				words += " and "
			}
			words += need.Memory.Guest.String() + " of memory"
		}
	}
	if words == "" {
		return "a number of vCPUs that it can spread"
	}
	return words
}

// bootRules judge whether a VM boots that names the object.
var bootRules = []Rule{
	{"catalog/boot", Error, "an object boots on each architecture that it lists, or on one if it lists none", "remove what is refused, or the architecture"},
}

// mostPartners is the number of instancetypes of a catalog with which a preference is tried on each architecture, besides an instancetype with exactly what the
// preference requires. The same number applies to the preferences of an instancetype.
const mostPartners = 4

// tryClaimedArchitectures tries each object on each architecture that it names.
func (l *linter) tryClaimedArchitectures() {
	instancetypes, preferences := l.usableObjects()
	for _, o := range preferences {
		l.tryArchitectures(o, func(architecture string) field.ErrorList { return l.tryPreference(o, instancetypes, architecture) })
	}
	for _, o := range instancetypes {
		l.tryArchitectures(o, func(architecture string) field.ErrorList { return l.tryInstancetype(o, preferences, architecture) })
	}
}

// tryArchitectures tries an object on each architecture that it names. An object that names none is tried on all architectures until it boots. An object that
// boots nowhere is not tried further.
func (l *linter) tryArchitectures(o *Object, try func(architecture string) field.ErrorList) {
	if l.lacksTrials() {
		return
	}
	claims, booted := o.claimedArchitectures(), false
	for _, c := range claims {
		errs := try(c.architecture)
		booted = booted || len(errs) == 0
		if len(errs) > 0 {
			l.addFinding("catalog/boot", location{o, c.path},
				fmt.Sprintf("it names architecture '%s', and no VM with it boots there: %s", c.architecture, reasonsOf(errs)))
		}
	}
	var first field.ErrorList
	for i := 0; i < len(architectures) && len(claims) == 0 && !booted; i++ {
		errs := try(architectures[i])
		booted = len(errs) == 0
		if first == nil {
			first = errs
		}
	}
	if len(claims) == 0 && !booted {
		l.addFinding("catalog/boot", location{o, "spec"}, fmt.Sprintf("no VM with it boots on any architecture; on '%s': %s", architectures[0], reasonsOf(first)))
	}
	l.broken[o] = !booted
}

// tryPreference tries a preference with an instancetype that has exactly what it requires, and with some instancetypes of the catalog. If no VM boots, it
// returns the errors of the first one.
func (l *linter) tryPreference(o *Object, instancetypes []*Object, architecture string) (errs field.ErrorList) {
	alone := l.sets[o]
	alone.Instancetype = justEnough(o.Preference)
	if _, errs = l.trials.bootVM(trialVM{Set: alone, architecture: architecture}, nil); len(errs) == 0 {
		return nil
	}
	return l.tryPartners(o, instancetypes, trialVM{architecture: architecture}, errs)
}

// tryInstancetype tries an instancetype without a preference, then with EFI, and then with some preferences. An instancetype with launchSecurity needs EFI,
// which only VMs and preferences can set. If no VM boots, it returns the errors of the first one.
func (l *linter) tryInstancetype(o *Object, preferences []*Object, architecture string) (errs field.ErrorList) {
	m := trialVM{Set: l.sets[o], architecture: architecture}
	if _, errs = l.trials.bootVM(m, nil); len(errs) == 0 {
		return nil
	}
	m.efi = true
	if _, refused := l.trials.bootVM(m, nil); len(refused) == 0 {
		return nil
	}
	return l.tryPartners(o, preferences, m, errs)
}

// tryPartners returns nil if a VM boots that names o and one of the first mostPartners others that fit; otherwise errs.
func (l *linter) tryPartners(o *Object, others []*Object, m trialVM, errs field.ErrorList) field.ErrorList {
	m.efi = false
	tried := 0
	for _, other := range others {
		if tried == mostPartners || l.trials.left <= 0 {
			break
		}
		m.Set = joinSets(l.sets[o], l.sets[other])
		if !o.sharesNamespace(other) || !instancetype.Fits(m.Set) {
			continue
		}
		tried++
		if _, refused := l.trials.bootVM(m, nil); len(refused) == 0 {
			return nil
		}
	}
	return errs
}

var boundedRules = []Rule{
	{"catalog/bounded", Note, "a catalog is small enough to try each of its objects", "split the catalog"},
}

// reportUntried adds a finding if some objects were not tried.
func (l *linter) reportUntried() {
	if l.untried > 0 && len(l.objects) > 0 {
		l.addFinding("catalog/bounded", location{l.objects[0], "metadata.name"},
			fmt.Sprintf("after %d trials %d objects were not tried: whether a VM boots with them is not known", l.most, l.untried))
	}
}
