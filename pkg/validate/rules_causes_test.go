package validate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestConsequences: what follows from a mistake is left out beside it, and stays elsewhere and alone.
func TestConsequences(t *testing.T) {
	t.Parallel()
	at := func(path, rule string) *field.Error {
		return &field.Error{Type: field.ErrorTypeInvalid, Field: path, Origin: rule}
	}
	for _, c := range consequences {
		for _, mistake := range c.of {
			for _, follows := range c.follow {
				near := map[scope]string{sameField: "a[0].b[1].c", sameElement: "a[0].b[1].d", pairwise: "e", anywhere: "e"}[c.within]
				far := map[scope]string{sameField: "a[0].b[1].d", sameElement: "a[0].b[2].c"}[c.within]
				for _, known := range []string{mistake, follows} {
					if _, found := declared[known]; !found {
						t.Errorf("%s: no rule is named '%s'", c.why, known)
					}
				}
				if got := origins(Causes(field.ErrorList{at(near, follows), at("a[0].b[1].c", mistake), at(near, "another/rule")})); got != mistake+" another/rule" {
					t.Errorf("'%s' beside '%s': %s", follows, mistake, got)
				}
				if got := origins(Causes(field.ErrorList{at(near, follows), at("a[0].b[1].c", "another/rule")})); got != follows+" another/rule" {
					t.Errorf("'%s' without '%s': %s", follows, mistake, got)
				}
				want := mistake
				if c.within == pairwise {
					want += " " + follows
				}
				if got := origins(Causes(field.ErrorList{at("a[0].b[1].c", mistake), at(near, follows), at(near, follows)})); got != want {
					t.Errorf("twice '%s' beside '%s': %s", follows, mistake, got)
				}
				if far == "" {
					continue
				}
				if got := origins(Causes(field.ErrorList{at(far, follows), at("a[0].b[1].c", mistake)})); got != follows+" "+mistake {
					t.Errorf("'%s' far from '%s': %s", follows, mistake, got)
				}
			}
		}
	}
}

// TestNothingFollowsFromItself: of two rules that follow from each other, both causes would be left out.
func TestNothingFollowsFromItself(t *testing.T) {
	t.Parallel()
	var visit func(rule string, above ...string)
	visit = func(rule string, above ...string) {
		for _, by := range explained[rule] {
			if strings.Contains(" "+strings.Join(above, " ")+" ", " "+by.rule+" ") {
				t.Fatalf("'%s' follows from itself: %v", by.rule, above)
			}
			visit(by.rule, append(above, by.rule)...)
		}
	}
	for rule := range explained {
		visit(rule, rule)
	}
}

func TestFewCauses(t *testing.T) {
	t.Parallel()
	one := field.ErrorList{{Field: "a", Origin: "machine/type"}}
	if got := Causes(one); len(got) != 1 || len(Causes(nil)) != 0 {
		t.Errorf("one cause becomes %v", got)
	}
	if got := Causes(append(one, &field.Error{Field: "b", Origin: "machine/architecture"})); origins(got) != "machine/architecture" {
		t.Errorf("two causes become %v", got)
	}
}

// origins are the rules of errors, in their order.
func origins(errs field.ErrorList) string {
	var rules []string
	for _, err := range errs {
		rules = append(rules, err.Origin)
	}
	return strings.Join(rules, " ")
}
