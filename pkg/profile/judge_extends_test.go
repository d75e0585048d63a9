package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
)

// named returns a profile of a namespace with a template, which extends others.
func named(t *testing.T, name, template string, extends ...string) *Profile {
	t.Helper()
	var bases []string
	for _, base := range extends {
		kind, _, cluster := strings.Cut(base, "/")
		if cluster {
			bases = append(bases, fmt.Sprintf(`{"kind": "ClusterGuestProfile", "name": "%s"}`, strings.TrimPrefix(base, kind+"/")))
		} else {
			bases = append(bases, fmt.Sprintf(`{"name": "%s"}`, base))
		}
	}
	p, err := Read("", fmt.Appendf(nil, `{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile", "metadata": {"namespace": "team", "name": "%s"},
		"spec": {"extends": [%s], "template": %s}}`, name, strings.Join(bases, ","), toJSON(t, template)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCircles: a profile that leads back to itself, or into a circle, is refused with the names in it.
func TestCircles(t *testing.T) {
	for _, test := range []struct {
		why     string
		judged  *Profile
		others  []*Profile
		at, way string
	}{
		{"itself", named(t, "a", "{}", "a"), nil, "spec.extends[0].name", "GuestProfile 'a' extends GuestProfile 'a'"},
		{"by another", named(t, "a", "{}", "x", "b"), []*Profile{named(t, "x", "{}"), named(t, "b", "{}", "a")}, "spec.extends[1].name",
			"GuestProfile 'a' extends GuestProfile 'b' extends GuestProfile 'a'"},
		{"others among themselves", named(t, "a", "{}", "b"), []*Profile{named(t, "b", "{}", "c"), named(t, "c", "{}", "b")}, "spec.extends[0].name",
			"GuestProfile 'b' extends GuestProfile 'c' extends GuestProfile 'b'"},
		{"what is stored of it does not count", named(t, "a", "{}", "b"), []*Profile{named(t, "a", "{}", "c"), named(t, "b", "{}", "a")}, "spec.extends[0].name",
			"GuestProfile 'a' extends GuestProfile 'b' extends GuestProfile 'a'"},
	} {
		errs := Judge(test.judged, test.others, config.Default()).Errors
		if len(errs) != 1 || errs[0].Field != test.at || errs[0].Origin != "profile/circular" || !strings.Contains(errs[0].Detail, test.way) {
			t.Errorf("%s: %v", test.why, errs)
		}
	}
	twice := Judge(named(t, "a", "{}", "b", "c", "b"), []*Profile{named(t, "b", "{}", "a"), named(t, "c", "{}", "b", "a")}, config.Default()).Errors
	if len(twice) != 2 || twice[0].Field != "spec.extends[0].name" || twice[1].Field != "spec.extends[1].name" {
		t.Errorf("two references that lead in circles: %v", twice)
	}
	diamond := []*Profile{named(t, "b", "{}", "d"), named(t, "c", "{}", "d"), named(t, "d", "{}")}
	if errs := Judge(named(t, "a", "{}", "b", "c"), diamond, config.Default()).Errors; len(errs) > 0 {
		t.Errorf("two ways to one base: %v", errs)
	}
}

// TestMissingBases: GitOps writes profiles in any order, so that a base that does not exist is a warning.
func TestMissingBases(t *testing.T) {
	verdict := Judge(named(t, "a", "{}", "b", "cluster/c"), []*Profile{named(t, "b", "{}", "d")}, config.Default())
	want := []string{
		"spec.extends[0].name: GuestProfile 'd' does not exist, which GuestProfile 'b' extends: until it does, new VMIs that the profile selects are refused",
		"spec.extends[1].name: ClusterGuestProfile 'c' does not exist: until it does, new VMIs that the profile selects are refused",
	}
	if len(verdict.Errors) > 0 || strings.Join(verdict.Warnings, "\n") != strings.Join(want, "\n") || len(verdict.Missing) != 2 {
		t.Errorf("%v %q", verdict.Errors, verdict.Warnings)
	}
	if missing := verdict.Missing; len(missing) == 2 && (missing[0].Namespace != "team" || missing[1].Namespace != "") {
		t.Errorf("%+v", missing)
	}
}

// TestBounds: bases in a row and in all are bounded, as where they fill, and the error names the reference that leads there.
func TestBounds(t *testing.T) {
	row := func(length int) (all []*Profile) {
		for i := range length {
			all = append(all, named(t, fmt.Sprintf("p%d", i), "{}", fmt.Sprintf("p%d", i+1)))
		}
		return append(all, named(t, fmt.Sprintf("p%d", length), "{}"))
	}
	tree := func(leaves int) (all []*Profile) {
		var own []string
		for i := range 8 {
			var names []string
			for j := range leaves {
				names = append(names, fmt.Sprintf("leaf%d-%d", i, j))
				all = append(all, named(t, names[j], "{}"))
			}
			own = append(own, fmt.Sprintf("branch%d", i))
			all = append(all, named(t, own[i], "{}", names...))
		}
		return append([]*Profile{named(t, "root", "{}", own...)}, all...)
	}
	for _, test := range []struct {
		why  string
		all  []*Profile
		rule string
	}{
		{"as deep as may be", row(MaxDepth - 1), ""},
		{"deeper", row(MaxDepth), "profile/extends-depth"},
		{"as many as may be", tree(6), ""},
		{"more", tree(7), "profile/extends-count"},
	} {
		errs := Judge(test.all[0], test.all, config.Default()).Errors
		if test.rule == "" && len(errs) > 0 || test.rule != "" && (len(errs) != 1 || errs[0].Origin != test.rule) {
			t.Errorf("%s: %v", test.why, errs)
		}
		if _, filled := Closure(test.all[:1], test.all); (len(filled) > 0) != (len(errs) > 0) {
			t.Errorf("%s: judged %v, filled %v", test.why, errs, filled)
		}
	}
}

// TestBasesAreJudgedToo: what is legal in each profile may be illegal in both. The error is at the profile's own field, else at the reference to the
// base that sets it.
func TestBasesAreJudgedToo(t *testing.T) {
	bases := []*Profile{
		named(t, "harmless", "{spec: {terminationGracePeriodSeconds: 5}}"),
		named(t, "secure", "{spec: {domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}}"),
		named(t, "plain", "{spec: {domain: {features: {smm: {enabled: false}}}}}"),
		named(t, "both", "{}", "secure", "plain"),
	}
	for _, test := range []struct {
		why    string
		judged *Profile
		at     string
	}{
		{"legal alone", named(t, "a", "{spec: {domain: {features: {smm: {enabled: false}}}}}"), ""},
		{"its own field", named(t, "a", "{spec: {domain: {firmware: {bootloader: {efi: {secureBoot: true}}}}}}", "harmless", "plain"),
			"spec.template.spec.domain.firmware.bootloader.efi.secureBoot"},
		{"the base's field", named(t, "a", "{spec: {domain: {features: {smm: {enabled: false}}}}}", "harmless", "secure"), "spec.extends[1]"},
		{"the bases of a base", named(t, "a", "{}", "harmless", "both"), "spec.extends[1]"},
		{"what the profile sets itself counts", named(t, "a", "{spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}}", "secure", "plain"), ""},
	} {
		errs := Judge(test.judged, bases, config.Default()).Errors
		if test.at == "" && len(errs) > 0 || test.at != "" && (len(errs) != 1 || errs[0].Field != test.at || errs[0].Origin != "firmware/secure-boot-smm") {
			t.Errorf("%s: %v", test.why, errs)
		}
	}
}

// TestOtherArchitectures: a profile that is legal elsewhere is accepted, and its author is told.
func TestOtherArchitectures(t *testing.T) {
	verdict := Judge(reading(t, "{spec: {domain: {devices: {watchdog: {name: w, diag288: {action: reset}}}}}}"), nil, config.Default())
	if len(verdict.Errors) > 0 || len(verdict.Warnings) != 1 || !strings.Contains(verdict.Warnings[0], "architecture 'amd64'") ||
		!strings.Contains(verdict.Warnings[0], "spec.template.spec.domain.devices.watchdog.diag288") {
		t.Errorf("%v %q", verdict.Errors, verdict.Warnings)
	}
}
