package backend_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/backends"
	v1 "kubevirt.io/api/core/v1"
)

func TestConflicts(t *testing.T) {
	t.Parallel()
	const few, many = "cpu: {shares: 2}", "cpu: {shares: 3}"
	in := func(values string) string {
		return "vmiSelector: {matchExpressions: [{key: a, operator: In, values: [" + values + "]}]}, "
	}
	for _, c := range []struct {
		why      string
		profiles []string // named a, b, c ...
		want     string
	}{
		{"none", nil, ""},
		{"alone", []string{few}, ""},
		{"they disagree", []string{few, many}, "a: b cpu.shares; b: a cpu.shares"},
		{"they agree", []string{few, few}, ""},
		{"they agree in other words", []string{"memory: {hardLimit: 1Gi}", "memory: {hardLimit: 1073741824}"}, ""},
		{"in lists too", []string{"cache: {l3Sizes: [1Mi, 0]}", "cache: {l3Sizes: [1Mi]}", "cache: {l3Sizes: [1024Ki]}"},
			"a: b cache.l3Sizes, c cache.l3Sizes; b: a cache.l3Sizes; c: a cache.l3Sizes"},
		{"another field", []string{few, "cpu: {periodMicroseconds: 5000}"}, ""},
		{"the first fields by name", []string{few + ", net: {vhost: true}, balloon: {statsPeriodSeconds: 1}, rng: {periodMilliseconds: 1}",
			many + ", net: {vhost: false}, balloon: {statsPeriodSeconds: 2}, rng: {periodMilliseconds: 2}"},
			"a: b balloon.statsPeriodSeconds cpu.shares net.vhost; b: a balloon.statsPeriodSeconds cpu.shares net.vhost"},
		{"another priority", []string{few, "priority: 1, " + many}, ""},
		{"two pairs of two priorities", []string{few, "priority: 1, vmiSelector: {matchLabels: {a: b}}, " + few, many, "priority: 1, " + many},
			"b: d cpu.shares; d: b cpu.shares"},
		{"a higher priority for all decides", []string{few, many, "priority: 1, vmiSelector: {}, cpu: {shares: 4}"}, ""},
		{"one for some does not", []string{few, many, "priority: 1, nodeSelector: {matchLabels: {a: b}}, cpu: {shares: 4}"}, "a: b cpu.shares; b: a cpu.shares"},
		{"one of another field does not", []string{few, many, "priority: 1, cpu: {periodMicroseconds: 5000}"}, "a: b cpu.shares; b: a cpu.shares"},
		{"a lower one does not", []string{few, many, "priority: -1, cpu: {shares: 4}"}, "a: b cpu.shares; b: a cpu.shares"},
		{"two values of one label", []string{"vmiSelector: {matchLabels: {a: b}}, " + few, "vmiSelector: {matchLabels: {a: c}}, " + many}, ""},
		{"two labels", []string{"vmiSelector: {matchLabels: {a: b}}, " + few, "vmiSelector: {matchLabels: {b: c}}, " + many}, "a: b cpu.shares; b: a cpu.shares"},
		{"other hosts", []string{"nodeSelector: {matchLabels: {a: b}}, " + few, "nodeSelector: {matchLabels: {a: c}}, " + many}, ""},
		{"a label of a VMI is not a label of a host", []string{"vmiSelector: {matchLabels: {a: b}}, " + few, "nodeSelector: {matchLabels: {a: c}}, " + many},
			"a: b cpu.shares; b: a cpu.shares"},
		{"lists that meet", []string{in("p, q") + few, in("q, r") + many}, "a: b cpu.shares; b: a cpu.shares"},
		{"lists that do not", []string{in("p, q") + few, in("r") + many}, ""},
		{"what is left of a list", []string{in("p") + few, "vmiSelector: {matchExpressions: [{key: a, operator: NotIn, values: [p]}]}, " + many}, ""},
		{"an absent label is not in a list", []string{"vmiSelector: {matchExpressions: [{key: a, operator: NotIn, values: [p]}]}, " + few,
			"vmiSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}, " + many}, "a: b cpu.shares; b: a cpu.shares"},
		{"there and not there", []string{"vmiSelector: {matchExpressions: [{key: a, operator: Exists}]}, " + few,
			"vmiSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}, " + many}, ""},
		{"one that selects nothing", []string{"vmiSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}, " + few, many}, ""},
		{"one that nobody can read", []string{"vmiSelector: {matchExpressions: [{key: a, operator: Like}]}, " + few, many}, ""},
		{"a field that nobody can read", []string{"disk: {cachePolicy: none}", "disk: {cachePolicy: None}"}, ""},
	} {
		var profiles []v1alpha1.HostProfile
		for i, spec := range c.profiles {
			profiles = append(profiles, backends.HostProfile(t, string(rune('a'+i)), "{"+spec+"}"))
		}
		got, all := backend.Conflicts(profiles)
		if diff := cmp.Diff(c.want, inWords(got)); diff != "" || !all {
			t.Errorf("%s: %t (-want +got):\n%s", c.why, all, diff)
		}
	}
}

func inWords(conflicts map[string][]backend.Conflict) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(conflicts)) {
		var others []string
		for _, c := range conflicts[name] {
			others = append(others, strings.Join(append([]string{c.Profile}, c.Fields...), " "))
		}
		lines = append(lines, name+": "+strings.Join(others, ", "))
	}
	return strings.Join(lines, "; ")
}

// TestConflictsAreWhatPolicyRefuses: where Conflicts finds none for two profiles, Policy refuses no VMI on any host.
func TestConflictsAreWhatPolicyRefuses(t *testing.T) {
	t.Parallel()
	selectors := []string{"{}", "{matchLabels: {a: p}}", "{matchLabels: {a: q}}", "{matchExpressions: [{key: a, operator: NotIn, values: [p]}]}",
		"{matchExpressions: [{key: a, operator: In, values: [p, q]}]}", "{matchExpressions: [{key: a, operator: Exists}]}",
		"{matchExpressions: [{key: a, operator: DoesNotExist}]}"}
	labels := []map[string]string{nil, {"a": "p"}, {"a": "q"}, {"a": "r"}}
	for _, one := range selectors {
		for _, other := range selectors {
			profiles := []v1alpha1.HostProfile{backends.HostProfile(t, "a", "{vmiSelector: "+one+", cpu: {shares: 2}}"),
				backends.HostProfile(t, "b", "{vmiSelector: "+other+", cpu: {shares: 3}}")}
			found, _ := backend.Conflicts(profiles)
			refused := slices.ContainsFunc(labels, func(l map[string]string) bool {
				vmi := &v1.VirtualMachineInstance{}
				vmi.Labels = l
				_, errs := backend.Policy(profiles, vmi, backend.Capabilities{})
				return len(errs) > 0
			})
			if refused != (len(found) > 0) {
				t.Errorf("%s and %s: in conflict: %t, and a VMI is refused: %t", one, other, len(found) > 0, refused)
			}
		}
	}
}

// TestConflictsAreBounded: what is reported, and what is done for it.
func TestConflictsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(n int, spec string) (profiles []v1alpha1.HostProfile) {
		for i := range n {
			profiles = append(profiles, backends.HostProfile(t, fmt.Sprintf("p%04d", i), fmt.Sprintf("{"+spec+"}", i, i+2)))
		}
		return profiles
	}
	found, all := backend.Conflicts(many(500, "vmiSelector: {matchLabels: {a: x%d}}, cpu: {shares: %d}"))
	if len(found) != 0 || !all {
		t.Errorf("500 profiles of one priority for different VMIs: %d conflicts, all compared: %t", len(found), all)
	}
	found, all = backend.Conflicts(many(500, "pathTemplates: {vnc: /%d}, cpu: {shares: %d}"))
	if len(found) != 500 || !all || len(found["p0000"]) != 10 || len(found["p0499"]) != 10 || found["p0499"][0].Profile != "p0000" {
		t.Errorf("500 profiles that disagree: %d of them, all compared: %t; the last with %v", len(found), all, found["p0499"])
	}
	if _, all = backend.Conflicts(many(800, "vmiSelector: {matchLabels: {a: x%d}}, cpu: {shares: %d}")); all {
		t.Error("319600 pairs are compared")
	}
	if _, all = backend.Conflicts(many(2000, "priority: %d, cpu: {shares: %d}")); !all {
		t.Error("2000 priorities need no comparison, and are too many")
	}
}

func BenchmarkConflicts(b *testing.B) {
	var profiles []v1alpha1.HostProfile
	for i := range 500 {
		profiles = append(profiles, backends.HostProfile(b, fmt.Sprintf("p%d", i),
			fmt.Sprintf("{vmiSelector: {matchLabels: {a: x%d}}, cpu: {shares: %d}, net: {vhost: true}}", i, i+2)))
	}
	for b.Loop() {
		backend.Conflicts(profiles)
	}
}
