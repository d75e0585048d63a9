package policytest

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
)

// Report has the results of the tests of a folder of policies.
type Report struct {
	Source string `json:"source"`
	// Policies is the number of policies. Passed and Failed are the numbers of cases.
	Policies int `json:"policies"`
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	// Cases are in the order of the files.
	Cases []Case `json:"cases"`
	// Findings are mistakes of policies, tests and files, and policies and validations that no case tests.
	Findings []Finding `json:"findings"`
}

// Case is a case of a test with its result.
type Case struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	File   string `json:"file"`
	// Line is the line where the case begins.
	Line   int  `json:"line"`
	Passed bool `json:"passed"`
	// Expected is the answer that the case expects.
	Expected Answer `json:"expected"`
	// Seen is the answer of the policy with all violations.
	Seen Answer `json:"seen"`
	// Reason is why the case has failed; empty if it has passed.
	Reason string `json:"reason,omitempty"`
}

// Answer is what a policy does with a request, or what a case expects.
type Answer struct {
	Answer     v1alpha1.GuestPolicyAnswer `json:"answer"`
	Violations []Violation                `json:"violations"`
}

// Violation is a violated validation, or an expression that fails.
type Violation struct {
	// Param names the object with which the policy was evaluated; empty if the policy has no params. A case does not expect one.
	Param   string `json:"param,omitempty"`
	Message string `json:"message,omitempty"`
	// Matches is a regular expression for the message. Only a case has one.
	Matches string `json:"matches,omitempty"`
	// Field is the path of the cause in the object. It is empty for a violation that an update did not introduce.
	Field string `json:"field,omitempty"`

	// validation is the index of the validation in the policy, or noValidation.
	validation int
}

// Finding is a mistake of a file, a policy or a test.
type Finding struct {
	File string `json:"file"`
	// Line is 0 if the finding is about the whole file.
	Line    int    `json:"line,omitempty"`
	Policy  string `json:"policy,omitempty"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Rules of findings.
const (
	// RuleUnreadable: a file cannot be parsed.
	RuleUnreadable = "unreadable"
	// RulePolicyInvalid: an API server with Kiln would refuse the policy.
	RulePolicyInvalid = "policy-invalid"
	// RuleTestInvalid: a test has a mistake, such as the name of a policy that does not exist.
	RuleTestInvalid = "test-invalid"
	// RuleUntested: a policy has no case, or no case violates one of its validations.
	RuleUntested = "untested"
)

// String returns the answer and its violations in one line.
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

// addCase adds the result of a case.
func (r *Report) addCase(c Case) {
	if r.Cases = append(r.Cases, c); c.Passed {
		r.Passed++
	} else {
		r.Failed++
	}
}

// addFinding adds a finding about an object, at the line of a path.
func (r *Report) addFinding(o manifest.Object, path string, f Finding) {
	f.File = o.File()
	if at, found := o.Find(path); found {
		f.Line = at.Number
	}
	r.Findings = append(r.Findings, f)
}
