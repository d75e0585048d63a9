package profile

import (
	"fmt"
	"strings"
	"testing"
)

// TestConflicts: who may select one VMI with another value, at one priority.
func TestConflicts(t *testing.T) {
	const grace = ", template: {spec: {terminationGracePeriodSeconds: %d}}"
	of := func(kind, namespace, name, selection string, seconds int) *Profile {
		p, err := Read("", []byte(toJSON(t, fmt.Sprintf("{apiVersion: kilnvm.io/v1alpha1, kind: %s, metadata: {namespace: '%s', name: %s}, spec: {%s"+grace+"}}",
			kind, namespace, name, selection, seconds))))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const own, cluster = "GuestProfile", "ClusterGuestProfile"
	a := of(own, "team", "a", "selector: {matchLabels: {os: linux}}", 1)
	namespaces := func(name string) map[string]string { return map[string]string{"stage": name} }
	for _, test := range []struct {
		why   string
		other []*Profile
		want  string
	}{
		{"another value", []*Profile{of(own, "team", "b", "selector: {}", 2)}, "b spec.terminationGracePeriodSeconds"},
		{"the same value", []*Profile{of(own, "team", "b", "selector: {}", 1)}, ""},
		{"another namespace", []*Profile{of(own, "other", "b", "selector: {}", 2)}, ""},
		{"other VMIs", []*Profile{of(own, "team", "b", "selector: {matchLabels: {os: windows}}", 2)}, ""},
		{"no VMIs", []*Profile{of(own, "team", "b", "priority: 0", 2)}, ""},
		{"another priority", []*Profile{of(own, "team", "b", "selector: {}, priority: 1", 2)}, ""},
		{"of the cluster", []*Profile{of(cluster, "", "b", "selector: {}", 2)}, "b spec.terminationGracePeriodSeconds"},
		{"for other namespaces", []*Profile{of(cluster, "", "b", "selector: {}, namespaceSelector: {matchLabels: {stage: other}}", 2)}, ""},
		{"for this namespace", []*Profile{of(cluster, "", "b", "selector: {}, namespaceSelector: {matchLabels: {stage: team}}", 2)},
			"b spec.terminationGracePeriodSeconds"},
		{"what a higher one decides for all", []*Profile{of(own, "team", "b", "selector: {}", 2), of(cluster, "", "c", "selector: {}, priority: 1", 3)}, ""},
		{"what a higher one decides for some", []*Profile{of(own, "team", "b", "selector: {}", 2),
			of(cluster, "", "c", "selector: {matchLabels: {tier: db}}, priority: 1", 3)}, "b spec.terminationGracePeriodSeconds"},
		{"what it extends", []*Profile{of(own, "team", "b", "selector: {}, extends: [{name: base}]", 0), of(own, "team", "base", "priority: 5", 2),
			of(own, "other", "base", "priority: 5", 1)}, "b spec.terminationGracePeriodSeconds"},
	} {
		found, complete := Conflicts(append([]*Profile{a}, test.other...), namespaces)
		var got []string
		for _, c := range found[a] {
			got = append(got, c.With.Name+" "+strings.Join(c.Fields, " "))
		}
		if !complete || strings.Join(got, ";") != test.want || (len(found[test.other[0]]) > 0) != (test.want != "") {
			t.Errorf("%s: %v %v, want %s", test.why, got, complete, test.want)
		}
	}
	many := make([]*Profile, 0, 2000)
	for i := range cap(many) {
		many = append(many, of(own, "team", fmt.Sprint("p", i), "selector: {}", i+1))
	}
	found, complete := Conflicts(many, namespaces)
	if complete || len(found[many[0]]) > conflictNames {
		t.Errorf("2000 profiles: complete %t, %d conflicts of the first", complete, len(found[many[0]]))
	}
}
