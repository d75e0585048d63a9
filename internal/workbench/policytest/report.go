package policytest

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// Report is the answer of the tests of a folder of policies.
type Report struct {
	Source string `json:"source"`
	// Policies is how many policies were tested, Passed and Failed how many of the cases did.
	Policies int `json:"policies"`
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	// Cases are in the order of the files.
	Cases []Case `json:"cases"`
	// Findings are on what no case can answer: policies and files that are wrong, and what is not tested.
	Findings []Finding `json:"findings"`
}

// Case is a case of a test with its answer.
type Case struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	File   string `json:"file"`
	// Line is where the case begins.
	Line   int  `json:"line"`
	Passed bool `json:"passed"`
	// Expected is the answer that the case names.
	Expected Answer `json:"expected"`
	// Seen is the answer of the policy; its violations are all there are.
	Seen Answer `json:"seen"`
	// Reason says why the case has failed; empty if it has passed.
	Reason string `json:"reason,omitempty"`
}

// Answer is what a policy does with a request, or what a case expects of it.
type Answer struct {
	Answer     v1alpha1.GuestPolicyAnswer `json:"answer"`
	Violations []Violation                `json:"violations"`
}

// Violation is a validation that is violated, or an expression that fails.
type Violation struct {
	Message string `json:"message,omitempty"`
	// Matches is a regular expression for the message. Only a case has one.
	Matches string `json:"matches,omitempty"`
	// Field is the path of the cause in the object. A violation that is forgiven has none.
	Field string `json:"field,omitempty"`

	// validation is its index in the policy.
	validation int
}

// Finding is what is wrong with a file, a policy or a test.
type Finding struct {
	File string `json:"file"`
	// Line is 0 where the whole file is meant.
	Line    int    `json:"line,omitempty"`
	Policy  string `json:"policy,omitempty"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Rules of findings.
const (
	// RulePolicyUnreadable: a file cannot be read as objects, so that nobody knows what it tests.
	RuleUnreadable = "unreadable"
	// RulePolicyInvalid: an API server with Kiln would refuse the policy.
	RulePolicyInvalid = "policy-invalid"
	// RuleTestInvalid: a test has a mistake, such as the name of a policy that is not there.
	RuleTestInvalid = "test-invalid"
	// RuleUntested: a policy has no case, or no case violates one of its validations.
	RuleUntested = "untested"
)

// String returns the answer for people.
func (a Answer) String() string {
	var texts []string
	for _, v := range a.Violations {
		text := ""
		if v.Message != "" {
			text = fmt.Sprintf("'%s'", v.Message)
		}
		if v.Matches != "" {
			text = strings.TrimSpace(fmt.Sprintf("%s /%s/", text, v.Matches))
		}
		if v.Field != "" {
			text = strings.TrimSpace(fmt.Sprintf("%s at %s", text, v.Field))
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return string(a.Answer)
	}
	return fmt.Sprintf("%s: %s", a.Answer, strings.Join(texts, "; "))
}

// add adds the answer of a case.
func (r *Report) add(c Case) {
	if r.Cases = append(r.Cases, c); c.Passed {
		r.Passed++
	} else {
		r.Failed++
	}
}

// find adds a finding on an object, at a path of it.
func (r *Report) find(o manifest.Object, path string, f Finding) {
	f.File = o.File()
	if at, found := o.Find(path); found {
		f.Line = at.Number
	}
	r.Findings = append(r.Findings, f)
}
