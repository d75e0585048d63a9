package profile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
)

func namesOf(profiles []*Profile) (names []string) {
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// TestExtends: own template first, then bases in order, depth first, each once.
func TestExtends(t *testing.T) {
	t.Parallel()
	all := []*Profile{
		read(t, "base", `{template: {metadata: {labels: {from: base}}, spec: {domain: {machine: {type: base}, memory: {guest: 1Gi}, clock: {utc: {}}}}}}`),
		read(t, "left", `{extends: [{name: base}, {kind: ClusterGuestProfile, name: common}], template: {spec: {domain: {machine: {type: left},
			cpu: {model: left}}}}}`),
		read(t, "right", `{extends: [{name: base}], priority: 7, template: {spec: {domain: {cpu: {model: right}, clock: {timezone: Europe/Vienna}}}}}`),
		read(t, "top", `{extends: [{name: left}, {name: right}], selector: {matchLabels: {os: any}}, template: {spec: {domain: {chassis: {sku: top}}}}}`),
		readKind(t, "ClusterGuestProfile", "common", `{template: {spec: {schedulerName: common}}}`),
		read(t, "common", `{selector: {}, priority: -1, template: {spec: {schedulerName: other}}}`),
	}
	vmi := vmiOf(t, `{metadata: {labels: {os: any}}}`)
	closure, errs := Closure(all[3:4], all)
	if got := namesOf(closure); len(errs) > 0 || !slices.Equal(got, []string{"top", "left", "base", "common",
		"right"}) || closure[3].Kind != "ClusterGuestProfile" {
		t.Errorf("closure %v %v", got, errs)
	}
	var sources []string
	if errs := Fill(all, vmi, Observer{After: func(s Source) { sources = append(sources, s.String()) }}); len(errs) > 0 {
		t.Fatal(errs)
	}
	want := vmiOf(t, `{metadata: {labels: {os: any, from: base}, annotations: {kilnvm.io/profile-labels: from}},
		spec: {schedulerName: common, domain: {chassis: {sku: top}, machine: {type: left}, cpu: {model: left}, memory: {guest: 1Gi}, clock: {utc: {}}}}}`)
	if !equality.Semantic.DeepEqual(vmi, want) {
		t.Errorf("(-want +got)\n%s", cmp.Diff(want, vmi))
	}
	if want := []string{"GuestProfile 'top'", "GuestProfile 'top' (by GuestProfile 'left', which it extends)",
		"GuestProfile 'top' (by GuestProfile 'base', which it extends)",
		"GuestProfile 'top' (by ClusterGuestProfile 'common', which it extends)"}; !slices.Equal(slices.Compact(sources), want) {
		t.Errorf("sources %q", sources)
	}
}

// TestBases: what cannot be followed refuses the VMIs that the profile selects, and no others.
func TestBases(t *testing.T) {
	t.Parallel()
	chain := func(n int) (all []*Profile) {
		for i := range n {
			all = append(all, read(t, fmt.Sprintf("p%d", i), fmt.Sprintf(`{extends: [{name: p%d}]}`, i+1)))
		}
		return append(all, read(t, fmt.Sprintf("p%d", n), `{}`))
	}
	var wide []*Profile
	for i := range 6 {
		extends := ""
		for j := range 15 {
			wide = append(wide, read(t, fmt.Sprintf("w%d-%d", i, j), `{}`))
			extends += fmt.Sprintf("{name: w%d-%d}, ", i, j)
		}
		wide = append(wide, read(t, fmt.Sprintf("w%d", i), `{extends: [`+extends+`]}`))
	}
	for _, test := range []struct {
		why, extends string
		all          []*Profile
		want         string
	}{
		{"a missing base", `[{name: a}]`, nil, "GuestProfile 'p' extends GuestProfile 'a', which does not exist: create it, or remove it from spec.extends"},
		{"a missing base of the cluster", `[{name: a, kind: ClusterGuestProfile}]`, []*Profile{read(t, "a", `{}`)},
			"GuestProfile 'p' extends ClusterGuestProfile 'a', which does not"},
		{"itself", `[{name: p}]`, nil, "GuestProfile 'p' extends GuestProfile 'p', which extends it in turn"},
		{"a circle", `[{name: a}]`, []*Profile{read(t, "a", `{extends: [{name: b}]}`), read(t, "b", `{extends: [{name: p}]}`)},
			"GuestProfile 'p' selects the VMI, and GuestProfile 'b' extends GuestProfile 'p', which extends it in turn"},
		{"a long row", `[{name: p0}]`, chain(20), "extends GuestProfile 'p15', which is more than 16 profiles in a row"},
		{"as many as allowed", `[{name: p0}]`, chain(14), ""},
		{"many", `[{name: w0}, {name: w1}, {name: w2}, {name: w3}, {name: w4}, {name: w5}]`, wide, "one of more than 64 profiles"},
	} {
		p := read(t, "p", `{selector: {matchLabels: {a: b}}, extends: `+test.extends+`}`)
		all := append([]*Profile{p}, test.all...)
		errs := Fill(all, vmiOf(t, `{metadata: {labels: {a: b}}}`), Observer{})
		_, closing := Closure(all[:1], all)
		if test.want == "" {
			if len(errs)+len(closing) > 0 {
				t.Errorf("%s: %v %v", test.why, errs, closing)
			}
			continue
		}
		for _, errs := range [][]string{details(errs), details(closing)} {
			if len(errs) != 1 || !strings.Contains(errs[0], test.want) {
				t.Errorf("%s: %q, want %s", test.why, errs, test.want)
			}
		}
		if errs := Fill(all, vmiOf(t, `{}`), Observer{}); len(errs) > 0 {
			t.Errorf("%s: a VMI that no profile selects: %v", test.why, errs)
		}
	}
}

// TestTooMany: the limit counts what is selected and what it extends.
func TestTooMany(t *testing.T) {
	t.Parallel()
	var all []*Profile
	for i := range MaxProfiles {
		all = append(all, read(t, fmt.Sprintf("p%d", i), `{selector: {}}`))
	}
	if errs := Fill(all, vmiOf(t, "{}"), Observer{}); len(errs) > 0 {
		t.Errorf("as many as allowed: %v", errs)
	}
	all = append(all, read(t, "base", `{}`), read(t, "p0", `{selector: {}, extends: [{name: base}]}`))
	if got := details(Fill(all[1:], vmiOf(t, "{}"), Observer{})); len(got) != 1 || !strings.HasPrefix(got[0], "65 profiles count for the VMI, ") {
		t.Errorf("a base more: %q", got)
	}
	if got := details(Fill(append(all, read(t, "q", `{selector: {}}`)), vmiOf(t, "{}"), Observer{})); len(got) != 1 || !strings.HasPrefix(got[0],
		"66 profiles count") {
		t.Errorf("two more: %q", got)
	}
}
