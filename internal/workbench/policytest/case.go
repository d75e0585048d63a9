package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// runTest runs the cases of a test.
func (f *policyFolder) runTest(ctx context.Context, b *workbench.Bench, t policyTest) error {
	p := f.policyNamed(t.typed.Policy)
	invalid := Finding{Policy: t.typed.Policy, Rule: RuleTestInvalid}
	switch {
	case p == nil:
		invalid.Message = fmt.Sprintf("no GuestPolicy of this folder is named '%s'", t.typed.Policy)
		if likely := nearest.Name(t.typed.Policy, f.policyNames()); likely != "" {
			invalid.Message += "; did you mean '" + likely + "'?"
		}
	case len(t.typed.Cases) == 0:
		invalid.Message = "the test has no case"
	}
	cluster, err := f.clusterOf(t)
	if err != nil {
		invalid.Message = err.Error()
	}
	if invalid.Message != "" {
		f.addFinding(t.Object, "policy", invalid)
		return nil
	}
	names := map[string]bool{}
	for i, c := range t.typed.Cases {
		p.cases++
		answered := Case{Policy: p.GetName(), Name: c.Name, File: t.File(), Expected: expectedAnswer(c)}
		if at, found := t.Find(fmt.Sprintf("cases[%d]", i)); found {
			answered.Line = at.Number
		}
		judge := caseJudge{policyFolder: f, bench: b, policy: p, test: t, cluster: cluster}
		err := checkCase(c, names)
		if names[c.Name] = true; err == nil && p.compiled == nil {
			err = errors.New("the policy does not compile")
		}
		if err == nil {
			answered.Seen, err = judge.reviewCase(ctx, c)
		}
		if answered.Reason = failureReason(answered, err); answered.Reason == "" {
			answered.Passed = true
			p.recordViolations(answered)
		}
		f.addCase(answered)
	}
	return ctx.Err()
}

// expectedAnswer returns what a case expects.
func expectedAnswer(c v1alpha1.GuestPolicyCase) Answer {
	answer := Answer{Answer: c.Expect, Violations: []Violation{}}
	if wanted := (Violation{Message: c.Message, Matches: c.Matches, Field: c.Field}); wanted != (Violation{}) {
		answer.Violations = append(answer.Violations, wanted)
	}
	return answer
}

// expectableAnswers are the answers that a case may expect.
var expectableAnswers = []v1alpha1.GuestPolicyAnswer{
	v1alpha1.PolicyAllows, v1alpha1.PolicyDenies, v1alpha1.PolicyWarns, v1alpha1.PolicyAudits, v1alpha1.PolicyExcepts,
	v1alpha1.PolicyBreaks,
}

// checkCase returns the mistake of a case itself; nil if it has none. others are the names of the cases before it.
func checkCase(c v1alpha1.GuestPolicyCase, others map[string]bool) error {
	_, malformed := regexp.Compile(c.Matches)
	switch {
	case c.Name == "":
		return errors.New("the case needs a name")
	case others[c.Name]:
		return errors.New("another case of this test has this name")
	case !slices.Contains(expectableAnswers, c.Expect):
		return fmt.Errorf("expect must be one of %q", expectableAnswers)
	case c.Expect == v1alpha1.PolicyAllows && c.Message+c.Matches+c.Field != "":
		return errors.New("message, matches and field must not be set if 'allowed' is expected: there is no violation")
	case malformed != nil:
		return fmt.Errorf("matches is not a regular expression: %w", malformed)
	case c.Operation != "" && c.Operation != v1alpha1.PolicyCreate && c.Operation != v1alpha1.PolicyUpdate:
		return fmt.Errorf("operation must be %s or %s", v1alpha1.PolicyCreate, v1alpha1.PolicyUpdate)
	case c.OldObject != nil && c.Operation == v1alpha1.PolicyCreate, c.OldObject == nil && c.Operation == v1alpha1.PolicyUpdate:
		return errors.New("an UPDATE has an oldObject, and a CREATE has none")
	}
	return nil
}

// failureReason returns why a case has failed; empty if it has passed.
func failureReason(c Case, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case c.Seen.Answer != c.Expected.Answer || len(c.Expected.Violations) > 0 && !slices.ContainsFunc(c.Seen.Violations, c.Expected.matchesViolation):
		return fmt.Sprintf("expected %s, got %s", c.Expected, c.Seen)
	}
	return ""
}

// matchesViolation reports whether an expected answer matches a violation. An answer without violations matches each.
func (a Answer) matchesViolation(seen Violation) bool {
	for _, want := range a.Violations {
		matches, err := regexp.MatchString(want.Matches, seen.Message)
		if err != nil || !matches || !strings.Contains(seen.Message, want.Message) || want.Field != "" && want.Field != seen.Field {
			return false
		}
	}
	return true
}

// recordViolations marks the validations that a case has violated as it expected.
func (p *testedPolicy) recordViolations(c Case) {
	for _, seen := range c.Seen.Violations {
		if c.Expected.matchesViolation(seen) && seen.validation < len(p.violated) {
			p.violated[seen.validation] = true
		}
	}
}

// clusterOf returns the objects of the files of a test's field 'cluster'.
func (f *policyFolder) clusterOf(t policyTest) (all []*unstructured.Unstructured, err error) {
	for _, name := range t.typed.Cluster {
		found, err := f.objectsOfFile(t, name)
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		for _, one := range (manifest.Files{}).SetNamespaces(found) {
			checked, err := crdschema.Check(one.Unstructured)
			if err == nil && len(checked.Mistakes) > 0 {
				err = checked.Mistakes.ToAggregate()
			}
			if err == nil {
				err = one.ConvertVersion()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", one.File(), one.Name(), err)
			}
			all = append(all, one.Unstructured)
		}
	}
	return all, nil
}

// objectsOfFile returns the objects of a file of the folder. The name is relative to the file of the test.
func (f *policyFolder) objectsOfFile(t policyTest, name string) ([]manifest.Object, error) {
	at := filepath.Join(filepath.Dir(t.File()), filepath.FromSlash(name))
	found, ok := f.files[at]
	if !ok {
		return nil, fmt.Errorf("the file '%s' is not in the tested folder, or is not a .yaml, .yml or .json", name)
	}
	return slices.Clone(found), nil
}

// caseObject returns an object of a case: the object of a file if the JSON is a string with its name, otherwise the JSON itself. If the object has no
// namespace, it gets the given one.
func (f *policyFolder) caseObject(t policyTest, raw json.RawMessage, namespace string) (manifest.Object, error) {
	one := manifest.Object{}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		found, err := f.objectsOfFile(t, name)
		if err != nil {
			return one, err
		}
		if len(found) != 1 {
			return one, fmt.Errorf("the file '%s' has %d objects, must have one", name, len(found))
		}
		one = found[0]
	} else {
		one = t.Inline(raw)
	}
	if one.Fault != nil {
		return one, one.Fault
	}
	one.Unstructured = one.DeepCopy() // another case may have another namespace
	one = manifest.Files{Namespace: namespace}.SetNamespaces([]manifest.Object{one})[0]
	return one, one.CheckSchema()
}
