package catalog

import (
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/record"
)

// Refused is the verdict on a change after which the webhook refuses a VM that booted before. It is worse than record.Breaks.
const Refused record.Verdict = "refused"

// verdicts in the order of their weight.
var verdicts = []record.Verdict{"", record.Compatible, record.NeedsRestart, record.Breaks, Refused}

// worseVerdict returns the worse of two verdicts.
func worseVerdict(a, b record.Verdict) record.Verdict {
	if slices.Index(verdicts, b) > slices.Index(verdicts, a) {
		return b
	}
	return a
}

// Step is the part of a semantic version (semver.org) that a change increases.
type Step string

const (
	// Unchanged is the step of two catalogs that are the same.
	Unchanged Step = "none"
	// Patch is a step without effect on the VMs that take the new version.
	Patch Step = "patch"
	// Minor is an addition: the catalog has a new object, or a VM that takes the new version sees a difference after a restart.
	Minor Step = "minor"
	// Major is a loss: an object is gone, or a VM that takes the new version loses hardware that its guest knows, or is refused.
	Major Step = "major"
)

var steps = []Step{Unchanged, Patch, Minor, Major}

func largerStep(a, b Step) Step {
	if slices.Index(steps, b) > slices.Index(steps, a) {
		return b
	}
	return a
}

// stepOf returns the step of a change of a spec by its verdict. Without a verdict it is Major, because the change may break VMs.
func stepOf(verdict record.Verdict) Step {
	switch verdict {
	case record.Compatible:
		return Patch
	case record.NeedsRestart:
		return Minor
	}
	return Major
}

// Actions of a change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is the difference between two versions of one object.
type Change struct {
	Key
	// Action is Added, Removed or Changed.
	Action string `json:"action"`
	Step   Step   `json:"step"`
	// Verdict is what a changed spec means for a VM that has run with the object and takes its new version. It is empty if the spec did not change, or if the
	// change was not judged.
	Verdict record.Verdict `json:"verdict,omitempty"`
	// Fields are the fields of metadata and spec that differ.
	Fields []FieldChange `json:"fields,omitempty"`
	// Seen are the differences that VMs see, and Refusals the reasons why some VMs no longer boot.
	Seen     []Seen    `json:"seen,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Tried is the number of other objects of the catalog with which the object was tried, and Untried the number that was left out because there were too
	// many.
	Tried   int `json:"tried,omitempty"`
	Untried int `json:"untried,omitempty"`
}

// FieldChange is a field with its values as JSON. The text of an absent value is empty.
type FieldChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Seen is a difference that VMs see, and the VMs that see it.
type Seen struct {
	record.Change
	Where
}

// Refusal is the reason why VMs no longer boot, and the VMs.
type Refusal struct {
	Reason string `json:"reason"`
	Where
}

// Where are the VMs that a change concerns, by the other objects that they name, and by the architectures on which they run.
type Where struct {
	With          []string `json:"with"`
	Architectures []string `json:"architectures"`
}

// Difference is the difference between two versions of a catalog.
type Difference struct {
	// Verdict is the worst verdict of all changes, and Step the largest step.
	Verdict record.Verdict `json:"verdict"`
	Step    Step           `json:"step"`
	Changes []Change       `json:"changes"`
	// Same is the number of objects that did not change.
	Same int `json:"same"`
}

// Compare returns the difference between two versions of a catalog, whose objects must have passed the schemas of their kinds. The verdicts are about VMs that
// take the new version ('kubectl kiln repin'): other existing VMs are pinned to the old one.
func Compare(before, after []*Object, settings Settings) Difference {
	return newComparison(before, after, settings).compareAll(mostTrials)
}

// comparison is one run of Compare.
type comparison struct {
	Settings
	before, after map[Key]*Object
	// contents are the results of Object.specContent, which are compared often.
	contents map[*Object]string
	keys     []Key
	// others are the objects before the change, in the order of keys.
	others []trialCompany
	trials trials
	// maxCompanies is the number of other objects with which a changed object is tried.
	maxCompanies int
}

func newComparison(before, after []*Object, settings Settings) *comparison {
	c := &comparison{Settings: settings, before: byKey(before), after: byKey(after)}
	c.keys = slices.SortedFunc(maps.Keys(c.before), Key.compareKey)
	for key := range c.after {
		if c.before[key] == nil {
			c.keys = append(c.keys, key)
		}
	}
	slices.SortFunc(c.keys, Key.compareKey)
	c.contents = make(map[*Object]string, len(before)+len(after))
	for _, o := range slices.Concat(before, after) {
		c.contents[o] = o.specContent()
	}
	for _, key := range c.keys {
		if o := c.before[key]; o != nil {
			other := trialCompany{names: []string{o.Name}, object: o, set: Pair(o, nil), changes: c.specChanged(key)}
			if other.changes {
				other.after = Pair(c.after[key], nil)
			}
			c.others = append(c.others, other)
		}
	}
	return c
}

// specChanged reports whether both versions have an object, and the meaning of its spec differs.
func (c *comparison) specChanged(key Key) bool {
	was, is := c.before[key], c.after[key]
	return was != nil && is != nil && c.contents[was] != c.contents[is]
}

// byKey returns objects by their keys. Of two objects of one key the last counts, as when the catalog is applied.
func byKey(objects []*Object) map[Key]*Object {
	all := make(map[Key]*Object, len(objects))
	for _, o := range objects {
		all[o.Key()] = o
	}
	return all
}

// compareAll compares all objects with at most so many boots, which the changed objects share equally.
func (c *comparison) compareAll(most int) Difference {
	c.trials = trials{cluster: c.Cluster, left: most}
	d := Difference{Verdict: record.Compatible, Step: Unchanged, Changes: []Change{}}
	changed := 0
	for _, key := range c.keys {
		if c.specChanged(key) {
			changed++
		}
	}
	// Each trial of a pair boots it before and after, on up to three architectures.
	c.maxCompanies = max(1, most/(2*len(architectures)*max(changed, 1)))
	for _, key := range c.keys {
		change, differs := c.changeOf(key)
		if !differs {
			d.Same++
			continue
		}
		d.Changes = append(d.Changes, change)
		d.Verdict, d.Step = worseVerdict(d.Verdict, change.Verdict), largerStep(d.Step, change.Step)
	}
	return d
}

// changeOf returns the difference between the two versions of an object; false if they are the same.
func (c *comparison) changeOf(key Key) (Change, bool) {
	was, is := c.before[key], c.after[key]
	change := Change{Key: key}
	switch {
	case was == nil:
		change.Action, change.Step = Added, Minor
	case is == nil:
		change.Action, change.Step = Removed, Major
		if c.lifecycleOf(was).Obsolete() { // no new VM could name it
			change.Step = Minor
		}
	default:
		change.Action, change.Fields = Changed, fieldChanges(was, is)
		if len(change.Fields) == 0 {
			return change, false
		}
		change.Step = c.lifeStep(was, is)
		if c.specChanged(key) {
			c.judgeChange(&change, was, is)
			change.Step = largerStep(change.Step, stepOf(change.Verdict))
		}
	}
	return change, true
}

func (c *comparison) lifecycleOf(o *Object) instancetype.Lifecycle {
	return instancetype.ReadLifecycle(o, c.Now)
}

// lifeStep returns the step of a change of the lifecycle. A change to obsolete is a loss, because no new VM may name the object. Other changes of the state are
// additions.
func (c *comparison) lifeStep(was, is *Object) Step {
	before, after := c.lifecycleOf(was), c.lifecycleOf(is)
	switch {
	case before.State == after.State:
		return Patch
	case after.State == v1alpha1.LifecycleObsolete:
		return Major
	}
	return Minor
}
