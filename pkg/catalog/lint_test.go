package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/test/samples"
)

var noon = Settings{Cluster: config.Default(), Now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}

// Objects without any finding except about descriptions, which most cases leave out.
const (
	small = `
metadata: {name: small, labels: {instancetype.kubevirt.io/cpu: "2", instancetype.kubevirt.io/memory: 4Gi}}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}}`
	linux = `
kind: p
metadata: {name: linux}
spec: {devices: {preferredDiskBus: virtio}}`
)

// lintCase is a catalog with one mistake, and its nearest neighbour without.
type lintCase struct {
	why, rule string
	bad, good []string
	// at is the field of the finding, words are in its message or remedy.
	at    string
	words []string
}

// settings returns the settings of the case: rules about runtimes judge by pods.
func (c lintCase) settings() Settings {
	settings := noon
	if strings.HasPrefix(c.rule, "runtime/") {
		settings.Cluster.Limits.Runtime = config.RuntimePod
	}
	return settings
}

// changed returns a document with a replacement, which must have an effect.
func changed(document, old, new string) string {
	if !strings.Contains(document, old) {
		panic(fmt.Sprintf("'%s' is not in\n%s", old, document))
	}
	return strings.Replace(document, old, new, 1)
}

func TestEachRuleOfLint(t *testing.T) {
	shown := map[string]bool{}
	for _, test := range slices.Concat(labelCases, objectCases, lifecycleCases, pairCases, runtimeCases) {
		t.Run(test.rule+"/"+test.why, func(t *testing.T) {
			shown[test.rule] = true
			var of []Finding
			for _, f := range Lint(objects(t, test.bad...), test.settings()) {
				if f.Rule == test.rule {
					of = append(of, f)
				} else if f.Rule != "label/description" {
					t.Errorf("another finding: %+v", f)
				}
			}
			if len(of) != 1 {
				t.Fatalf("want one finding, got %+v", of)
			}
			f := of[0]
			if f.Field != test.at || f.Severity != declared[test.rule].Severity || f.Remedy == "" || f.Message == "" {
				t.Errorf("want it at %s, got %+v", test.at, f)
			}
			for _, words := range test.words {
				if !strings.Contains(f.Message+"\n"+f.Remedy, words) {
					t.Errorf("'%s' is neither in message nor in remedy: %+v", words, f)
				}
			}
			for _, f := range Lint(objects(t, test.good...), test.settings()) {
				if f.Rule != "label/description" || test.rule == f.Rule {
					t.Errorf("its good neighbour has a finding: %+v", f)
				}
			}
		})
	}
	for _, rule := range Rules() {
		if !shown[rule.Name] && rule.Name != "catalog/bounded" { // TestManyObjects shows it
			t.Errorf("no case shows rule %s", rule.Name)
		}
		if rule.Says == "" || rule.Severity == "" {
			t.Errorf("rule %+v lacks its words", rule)
		}
	}
}

// TestCatalogsWithoutMistakes: the published catalog keeps the contract, and ours has no labels.
func TestCatalogsWithoutMistakes(t *testing.T) {
	for _, set := range samples.Sets(t) {
		all := whole(t, set)
		for _, f := range Lint(all, noon) {
			if set.Published() || f.Rule != "label/missing" && f.Rule != "label/description" {
				t.Errorf("%s: %s: %+v", set.Name, all[f.Object].Key(), f)
			}
		}
	}
}

// TestOneOfBothAlone: a catalog of only instancetypes is meant for the preferences of another one.
func TestOneOfBothAlone(t *testing.T) {
	for _, alone := range [][]string{{small}, {needing("64", "1Ti")}, nil} {
		for _, f := range Lint(objects(t, alone...), noon) {
			if f.Rule != "label/description" {
				t.Errorf("%v: %+v", alone, f)
			}
		}
	}
}

// TestLintIsStable: findings do not depend on what maps are like, and nothing given is changed.
func TestLintIsStable(t *testing.T) {
	var bad []string
	for _, test := range slices.Concat(labelCases, objectCases, lifecycleCases, pairCases, runtimeCases) {
		bad = append(bad, test.bad...)
	}
	all, same := objects(t, bad...), objects(t, bad...)
	first := Lint(all, noon)
	if diff := cmp.Diff(same, all); diff != "" {
		t.Errorf("Lint changes what it is given: %s", diff)
	}
	if diff := cmp.Diff(first, Lint(same, noon)); diff != "" {
		t.Errorf("two runs: %s", diff)
	}
	if !slices.IsSortedFunc(first, func(a, b Finding) int { return a.Object - b.Object }) {
		t.Error("findings are not in the order of the objects")
	}
}

// TestManyObjects: a catalog of 10,000 objects, none like another, is judged, and what was not tried is said.
func TestManyObjects(t *testing.T) {
	const each, most = 5000, 300
	var all []*Object
	models := objects(t, small, needing("1", "1Gi"))
	for i := range each {
		size, system := *models[0], *models[1]
		size.Instancetype, system.Preference = size.Instancetype.DeepCopy(), system.Preference.DeepCopy()
		size.Name, system.Name = fmt.Sprintf("small.%d", i), fmt.Sprintf("needing.%d", i)
		// A later preference needs more, and every instancetype has too little for half of them.
		size.Instancetype.CPU.Guest, system.Preference.Requirements.CPU.Guest = uint32(i%400+1), uint32(i%800+1)
		size.Instancetype.Annotations = map[string]string{"number": size.Name}
		size.Labels, system.Labels = nil, nil
		all = append(all, &size, &system)
	}
	count := map[string]int{}
	for _, f := range newLinter(all, noon).runChecks(most) {
		count[f.Rule]++
	}
	if count["catalog/bounded"] != 1 || count["catalog/same-spec"] != 0 || count["label/missing"] != 2*each {
		t.Errorf("findings: %v", count)
	}
}
