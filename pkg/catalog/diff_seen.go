package catalog

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
)

// Booting VMs shows what a change means: VMs that name the changed object and each other object with which it works, before and after the change. A VM has the
// record of its boot before the change, so that devices that stay keep their addresses.

// trialCompany is the object that the VMs of a trial name besides the changed object.
type trialCompany struct {
	// names are the names of all objects with this spec. Without an object they are a description.
	names []string
	// object is nil if the VMs name no other object.
	object *Object
	// set has the object before the change, and after its new version, if the object changes, too.
	set, after instancetype.Set
	changes    bool
	efi        bool
}

// companiesOf returns the companies with which an object is tried, and the number of objects that were left out because there were too many.
func (c *comparison) companiesOf(o *Object) (all []trialCompany, left int) {
	if o.Instancetype != nil {
		all = append(all, trialCompany{names: []string{"no preference"}}, trialCompany{names: []string{"no preference, and EFI"}, efi: true})
	} else {
		all = append(all, trialCompany{names: []string{"just what it required"}, set: instancetype.Set{Instancetype: justEnough(o.Preference)}})
	}
	own, set := len(all), Pair(o, nil)
	place := map[string]int{}
	for _, other := range c.others {
		if (other.object.Instancetype == nil) == (o.Instancetype == nil) || !o.sharesNamespace(other.object) || !instancetype.Fits(joinSets(set, other.set)) {
			continue
		}
		content := c.contents[other.object]
		at, known := place[content]
		switch {
		case known && !other.changes && !all[at].changes:
			all[at].names = append(all[at].names, other.names...)
		case len(all)-own >= c.maxCompanies:
			left++
		default:
			place[content] = len(all)
			other.names = slices.Clone(other.names)
			all = append(all, other)
		}
	}
	return all, left
}

// judgeChange finds what a changed spec means for the VMs that take it.
func (c *comparison) judgeChange(change *Change, was, is *Object) {
	all, left := c.companiesOf(was)
	change.Untried = left
	old, new := Pair(was, nil), Pair(is, nil)
	for _, with := range all {
		if with.efi && change.Tried > 0 { // the VM with EFI is only for instancetypes that do not boot without
			continue
		}
		booted := false
		for _, architecture := range architecturesOf(was, with.object) {
			if c.trials.left <= 0 {
				break
			}
			m := trialVM{Set: joinSets(old, with.set), architecture: architecture, efi: with.efi}
			before, refused := c.trials.bootVM(m, nil)
			if len(refused) > 0 {
				continue // no VM of this kind has run
			}
			booted = true
			// Only the changed object: the other object stays as it is in existing VMs.
			m.Set = joinSets(new, with.set)
			alone := change.addOutcome(c.bootAgain(m, before), Where{with.names, []string{architecture}})
			if with.changes && was.Instancetype != nil {
				c.judgeTogether(change, m, before, jointTrial{set: joinSets(old, with.after), both: joinSets(new, with.after), worst: alone, names: with.names})
			}
		}
		switch {
		case booted:
			change.Tried++
		case c.trials.left <= 0:
			change.Untried += len(with.names)
		}
	}
	if change.Verdict == "" && change.Untried == 0 { // no VM can have run with it
		change.Verdict = record.Compatible
	}
}

// outcome is the boot of a VM after a change.
type outcome struct {
	verdict record.Verdict
	changes []record.Change
	reason  string
}

// bootAgain boots the VM of an earlier boot again.
func (c *comparison) bootAgain(m trialVM, before render.Result) outcome {
	after, refused := c.trials.bootVM(m, &before.Record)
	if len(refused) > 0 {
		return outcome{verdict: Refused, reason: reasonsOf(refused)}
	}
	// Frontends are compared, not whole domains: a guest does not see the paths and CPUs of the assumed host.
	changes := abi.Compare(before.Frontend, after.Frontend)
	return outcome{verdict: record.Judge(changes), changes: changes}
}

// jointTrial is a pair of which both objects change.
type jointTrial struct {
	// set is the pair with only the other object changed, and both the pair with both changed.
	set, both instancetype.Set
	// worst is the verdict on the change of only the first object.
	worst record.Verdict
	names []string
}

// judgeTogether judges two changes that a VM takes at once. Their outcome is noted only if it is worse than the outcome of each single change.
func (c *comparison) judgeTogether(change *Change, m trialVM, before render.Result, t jointTrial) {
	m.Set = t.set
	single := worseVerdict(t.worst, c.bootAgain(m, before).verdict)
	m.Set = t.both
	if both := c.bootAgain(m, before); worseVerdict(single, both.verdict) != single {
		names := make([]string, len(t.names))
		for i, name := range t.names {
			names[i] = name + " as it becomes"
		}
		change.addOutcome(both, Where{names, []string{m.architecture}})
	}
}

// addOutcome adds the outcome of one trial to the change, and returns its verdict.
func (c *Change) addOutcome(o outcome, at Where) record.Verdict {
	c.Verdict = worseVerdict(c.Verdict, o.verdict)
	if o.verdict == Refused {
		i := slices.IndexFunc(c.Refusals, func(r Refusal) bool { return r.Reason == o.reason })
		if i < 0 {
			i, c.Refusals = len(c.Refusals), append(c.Refusals, Refusal{Reason: o.reason})
		}
		c.Refusals[i].addVMs(at)
		return o.verdict
	}
	for _, seen := range o.changes {
		i := slices.IndexFunc(c.Seen, func(s Seen) bool { return s.Change == seen })
		if i < 0 {
			i, c.Seen = len(c.Seen), append(c.Seen, Seen{Change: seen})
		}
		c.Seen[i].addVMs(at)
	}
	return o.verdict
}

// addVMs adds names and architectures that are not there yet.
func (w *Where) addVMs(more Where) {
	w.With, w.Architectures = appendMissing(w.With, more.With), appendMissing(w.Architectures, more.Architectures)
}

// appendMissing returns names, followed by the names in more that are not among them.
func appendMissing(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
