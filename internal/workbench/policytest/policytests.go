// Package policytest runs the GuestPolicyTests of a folder of GuestPolicies.
package policytest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	strictjson "sigs.k8s.io/json"
)

// A folder of policies is tested before anyone trusts it. As for a catalog, no file of a test may be outside of the folder.

// policyFolder is a folder of policies and their tests.
type policyFolder struct {
	Report
	known  *runtime.Scheme
	places *manifest.Positions
	// files has the objects of each file by its cleaned path.
	files map[string][]manifest.Object
	// definitions are the CustomResourceDefinitions of the folder, by which params have types.
	definitions []*unstructured.Unstructured
	// policies are in the order of the files.
	policies []*testedPolicy
	tests    []policyTest
}

// testedPolicy is a policy of the folder, with results of its cases.
type testedPolicy struct {
	manifest.Object
	typed v1alpha1.GuestPolicy
	// compiled is nil for a policy that is refused.
	compiled *policy.Policy
	cases    int
	// violated has, for each validation, whether a case has violated it as expected.
	violated []bool
}

// policyTest is a GuestPolicyTest of the folder.
type policyTest struct {
	manifest.Object
	typed v1alpha1.GuestPolicyTest
}

// Run runs the tests of a folder of policies. source is the name of the folder in the report. Mistakes of policies and tests are findings; an error means
// that Kiln failed.
func Run(ctx context.Context, b *workbench.Bench, source string, files []manifest.File) (Report, error) {
	known, err := crdschema.Scheme()
	if err != nil {
		return Report{}, err
	}
	f := &policyFolder{Report: Report{Source: source, Cases: []Case{}, Findings: []Finding{}}, known: known,
		places: &manifest.Positions{}, files: map[string][]manifest.Object{}}
	for _, file := range files {
		f.addDefinitions(file)
	}
	for _, file := range files {
		if err := f.addFile(file); err != nil {
			return f.Report, err
		}
	}
	f.Policies = len(f.policies)
	for _, t := range f.tests {
		if err := f.runTest(ctx, b, t); err != nil {
			return f.Report, err
		}
	}
	f.findUntested()
	return f.Report, nil
}

// addDefinitions adds the CustomResourceDefinitions of a file.
func (f *policyFolder) addDefinitions(file manifest.File) {
	for _, one := range file.Objects(&manifest.Positions{}) {
		if one.Fault == nil && one.GetKind() == "CustomResourceDefinition" {
			f.definitions = append(f.definitions, one.Unstructured)
		}
	}
}

// addFile adds the objects of a file, and the policies and tests among them. Other objects are not checked here: a case checks the objects that it uses.
func (f *policyFolder) addFile(file manifest.File) error {
	all := file.Objects(f.places)
	f.files[filepath.Clean(file.Name)] = all
	for _, one := range all {
		switch {
		case one.Fault != nil:
			f.Findings = append(f.Findings, Finding{File: file.Name, Rule: RuleUnreadable, Message: one.Fault.Error()})
		case one.GroupVersionKind().Group != v1alpha1.GroupVersion.Group:
		case one.GetKind() == v1alpha1.KindGuestPolicy:
			if err := f.addPolicy(one); err != nil {
				return err
			}
		case one.GetKind() == v1alpha1.KindGuestPolicyTest:
			f.addTest(one)
		}
	}
	return nil
}

// addPolicy adds a policy. If an API server or Kiln would refuse it, it adds a finding, and the cases of the policy fail.
func (f *policyFolder) addPolicy(one manifest.Object) error {
	p := &testedPolicy{Object: one}
	found, err := crdschema.Check(one.Unstructured)
	if err != nil {
		return err
	}
	mistakes := found.Mistakes
	if f.policyNamed(one.GetName()) != nil {
		f.addFinding(one, "metadata.name", Finding{Policy: one.GetName(), Rule: RulePolicyInvalid, Message: "another policy of the folder has this name"})
		return nil
	}
	if len(mistakes) == 0 {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, &p.typed); err != nil {
			return err
		}
		// An expression that fails must be reported here, even if the policy ignores it in a cluster.
		strict := p.typed.DeepCopy()
		strict.Spec.FailurePolicy = v1alpha1.PolicyFail
		p.compiled, mistakes, err = workbench.CompileWith(f.definitions, strict)
		if err != nil {
			return err
		}
	}
	for _, e := range mistakes {
		f.addFinding(one, e.Field, Finding{Policy: one.GetName(), Rule: RulePolicyInvalid, Message: e.Error()})
	}
	if len(mistakes) > 0 {
		p.compiled = nil
	}
	p.violated = make([]bool, len(p.typed.Spec.Validations))
	f.policies = append(f.policies, p)
	return nil
}

// policyNamed returns the policy of a name; nil if the folder does not have it.
func (f *policyFolder) policyNamed(name string) *testedPolicy {
	if i := slices.IndexFunc(f.policies, func(p *testedPolicy) bool { return p.GetName() == name }); i >= 0 {
		return f.policies[i]
	}
	return nil
}

// policyNames returns the names of the folder's policies.
func (f *policyFolder) policyNames() (names []string) {
	for _, p := range f.policies {
		names = append(names, p.GetName())
	}
	return names
}

// addTest adds a test. It refuses unknown fields, because the case would expect less than its author wrote.
func (f *policyFolder) addTest(one manifest.Object) {
	t := policyTest{Object: one}
	raw, err := one.MarshalJSON()
	var unknown []error
	if err == nil {
		unknown, err = strictjson.UnmarshalStrict(raw, &t.typed)
	}
	if err = errors.Join(append(unknown, err)...); err != nil {
		f.addFinding(one, "", Finding{Policy: t.typed.Policy, Rule: RuleTestInvalid, Message: err.Error()})
		return
	}
	f.tests = append(f.tests, t)
}

// findUntested adds findings for policies without a case, and for validations that no case violates.
func (f *policyFolder) findUntested() {
	for _, p := range f.policies {
		finding := Finding{Policy: p.GetName(), Rule: RuleUntested}
		switch {
		case p.compiled == nil:
			continue
		case p.cases == 0:
			finding.Message = "the policy has no case"
			f.addFinding(p.Object, "", finding)
			continue
		}
		for i, violated := range p.violated {
			if !violated {
				finding.Message = fmt.Sprintf("no case violates spec.validations[%d], '%s'", i, p.typed.Spec.Validations[i].Expression)
				f.addFinding(p.Object, fmt.Sprintf("spec.validations[%d]", i), finding)
			}
		}
	}
}
