package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCases: a seed gives the same cases again, of each corpus, and another seed gives others.
func TestCases(t *testing.T) {
	made := func(seed uint64) []Case {
		g, err := newGenerator("../..", seed)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := g.cases(200)
		if err != nil {
			t.Fatal(err)
		}
		return cases
	}
	cases := made(1)
	if diff := cmp.Diff(cases, made(1)); diff != "" {
		t.Errorf("the same seed gives other cases: %s", diff)
	}
	suites, ids := map[string]int{}, map[string]bool{}
	for _, c := range cases {
		suites[c.Suite]++
		ids[c.ID] = true
		if (c.VM == nil) == (c.VMI == nil) {
			t.Errorf("%s: a case has a VM or a VMI", c.Origin)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
	if len(suites) != 3 || suites["mutate"] < 30 || suites["validate-vm"] < 60 || suites["validate-vmi"] < 60 || len(ids) != len(cases) {
		t.Errorf("%d cases with %d IDs: %v", len(cases), len(ids), suites)
	}
	for _, c := range made(2) {
		if ids[c.ID] {
			delete(ids, c.ID)
		}
	}
	if len(ids) < 100 {
		t.Errorf("another seed gives the same cases, except %d", len(ids))
	}
}
