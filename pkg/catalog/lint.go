package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Severity is the weight of a finding. The values are SARIF's levels.
type Severity string

const (
	// Error marks what an API server or Kiln refuses, and statements that are not true.
	Error Severity = "error"
	// Warning marks a finding that does not block publishing but is probably a mistake.
	Warning Severity = "warning"
	// Note marks missing metadata that would help users to choose an object.
	Note Severity = "note"
)

// Rule is a reason for findings. The literals of rules stand beside the functions that judge.
type Rule struct {
	// Name is the rule's subject, a slash, and the mistake.
	Name     string
	Severity Severity
	// Says is the sentence that holds for a catalog without such a finding.
	Says string
	// Remedy tells the user what to do. A finding may have a more specific remedy.
	Remedy string
}

// Finding is a mistake in one object of a catalog.
type Finding struct {
	Rule     string
	Severity Severity
	// Object is the index of the object among the objects that were passed to Lint.
	Object int
	// Field is the path in the object, such as 'metadata.labels[instancetype.kubevirt.io/cpu]'.
	Field   string
	Message string
	Remedy  string
}

// Settings are the circumstances under which a catalog is judged.
type Settings struct {
	// Cluster is the configuration of the cluster for which the catalog is meant. If it names a runtime, the catalog is also judged by the runtime.
	Cluster config.Cluster
	// Now is the time by which objects are obsolete.
	Now time.Time
}

// checks each judge a whole catalog. Their order is the order of the findings about one object.
var checks = []func(*linter){
	(*linter).lintWithWebhookRules, (*linter).findDuplicates, (*linter).findLongNames, (*linter).lintLabels, (*linter).findMissingDescriptions,
	(*linter).lintLifecycles, (*linter).findSameSpecs, (*linter).tryClaimedArchitectures, (*linter).lintPairs,
	(*linter).judgeByRuntime, (*linter).reportUntried,
}

// declared are all rules by name.
var declared = byName(legalRules, twiceRules, nameRules, labelRules, describedRules, lifecycleRules, sameSpecRules, pairRules, bootRules,
	runtimeRules, boundedRules)

func byName(lists ...[]Rule) map[string]Rule {
	all := map[string]Rule{}
	for _, rule := range slices.Concat(lists...) {
		all[rule.Name] = rule
	}
	return all
}

// Rules returns all rules of Lint, in the order of their names.
func Rules() []Rule {
	return slices.SortedFunc(maps.Values(declared), func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
}

// mostTrials bounds what a catalog of thousands of objects costs: some 30 seconds.
const mostTrials = 30000

// Lint returns the findings about a catalog, whose objects must have passed the schemas of their kinds, in the order of the objects.
func Lint(objects []*Object, settings Settings) []Finding {
	return newLinter(objects, settings).runChecks(mostTrials)
}

func newLinter(objects []*Object, settings Settings) *linter {
	l := &linter{Settings: settings, objects: objects, index: make(map[*Object]int, len(objects)), broken: map[*Object]bool{}}
	l.sets = make(map[*Object]instancetype.Set, len(objects))
	for i, o := range objects {
		l.index[o] = i
		l.sets[o] = Pair(o, nil)
	}
	return l
}

func (l *linter) runChecks(most int) []Finding {
	l.prepareTrials(most)
	for _, judge := range checks {
		judge(l)
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return cmp.Compare(a.Object, b.Object) })
	return l.findings
}

// prepareTrials permits a number of trials. The runtime judges none of them: judgeByRuntime finds what the runtime refuses.
func (l *linter) prepareTrials(most int) {
	l.most, l.trials = most, trials{cluster: l.Cluster, left: most}
	l.trials.cluster.Limits.Runtime = ""
}

// linter is one run of Lint.
type linter struct {
	Settings
	objects []*Object
	index   map[*Object]int
	// sets are the sets of VMs that name only the object.
	sets map[*Object]instancetype.Set
	// broken are objects to which no VM can refer. They are not tried.
	broken map[*Object]bool
	trials trials
	// most is the number of trials at the start of the run.
	most int
	// untried is the number of objects that were not tried, because no trials were left.
	untried  int
	findings []Finding
}

// location is a place in an object.
type location struct {
	object *Object
	path   string
}

// addFinding adds a finding with the rule's own remedy.
func (l *linter) addFinding(rule string, at location, message string) {
	l.addWithRemedy(rule, at, message, declared[rule].Remedy)
}

func (l *linter) addWithRemedy(rule string, at location, message, remedy string) {
	l.findings = append(l.findings, Finding{
		Rule: rule, Severity: declared[rule].Severity, Object: l.index[at.object], Field: at.path, Message: message, Remedy: remedy,
	})
}

// usableObjects returns the objects that can be tried.
func (l *linter) usableObjects() (instancetypes, preferences []*Object) {
	return splitByKind(slices.DeleteFunc(slices.Clone(l.objects), func(o *Object) bool { return l.broken[o] }))
}

// reasonsOf returns the first reasons for a refusal in one line.
func reasonsOf(errs field.ErrorList) string {
	const shown = 2
	var words []string
	for _, err := range errs[:min(shown, len(errs))] {
		words = append(words, err.Field+": "+cmp.Or(err.Detail, err.ErrorBody()))
	}
	if more := len(errs) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}
