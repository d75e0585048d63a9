package policyreport

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/pkg/shorten"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Values of openreports.Result.
const (
	pass   openreports.Result = "pass"
	fail   openreports.Result = "fail"
	warn   openreports.Result = "warn"
	failed openreports.Result = "error"
	skip   openreports.Result = "skip"
)

// strictest are the results in the order in which a report lists them.
var strictest = []openreports.Result{fail, failed, warn, skip, pass}

// Bounds of a report, so that the API server stores it (etcd takes 1.5 MiB) and a person reads it. Its summary counts all results.
const (
	mostResults = 500
	// mostEncoded is the most bytes of one result in the API server's store.
	mostEncoded = 2 << 10
	// mostText is the most runes of a message, a path and a param.
	mostText = 512
)

// Properties of a result.
const (
	propertyParam     = "param"
	propertyField     = "field"
	propertyException = "exception"
	propertyUntil     = "until"
	// propertyOmitted is the number of further results of the same policy, rule and kind of result that the report does not list.
	propertyOmitted = "omitted"
)

// notEvaluated is the policy of a result that says that no policy could be evaluated. No GuestPolicy has this name.
const notEvaluated = "*"

// counts are numbers of results by kind of result.
type counts map[openreports.Result]int

// findings are the results of one namespace.
type findings struct {
	namespace string
	// counts are the numbers of results by policy.
	counts map[string]counts
	groups map[group]*results
	// listed is the number of results in first of all groups: at most mostResults.
	listed int
	// longest is at least the length of first of each group.
	longest int
	// until is when the first exception ends; zero without one.
	until time.Time
	// again reports that an object could not be evaluated, or not be annotated, for a reason that may go away.
	again bool
	// annotated is the number of VMs whose annotation was written.
	annotated int
}

// group is what results have in common that a report lists beside each other.
type group struct {
	result       openreports.Result
	policy, rule string
}

// results are the first results of a group, in the order of the objects, and the number of all.
type results struct {
	first []openreports.ReportResult
	count int
}

func newFindings(namespace string) *findings {
	return &findings{namespace: namespace, counts: map[string]counts{}, groups: map[group]*results{}}
}

// addResults adds what the policies say about an object. The result of a policy that selects an object without a violation is only counted.
func (f *findings) addResults(object client.Object, results policy.Result) {
	answered := map[string]bool{}
	for _, v := range results.Violations {
		answered[v.Policy] = true
		f.putResult(object, violationResult(v))
		if v.Until != nil && (f.until.IsZero() || v.Until.Time.Before(f.until)) {
			f.until = v.Until.Time
		}
	}
	for _, failure := range results.Failures {
		answered[failure.Policy] = true
		f.putResult(object, withProperties(openreports.ReportResult{Policy: failure.Policy, Rule: failure.Expression, Result: failed, Description: failure.Message},
			propertyParam, failure.Param))
	}
	for _, name := range results.Selected {
		if !answered[name] {
			f.countResult(name, pass)
		}
	}
}

// addNotEvaluated adds an object on which no policy could be evaluated.
func (f *findings) addNotEvaluated(object client.Object, why error) {
	f.putResult(object, openreports.ReportResult{Policy: notEvaluated, Result: failed, Description: "no policy can be evaluated: " + why.Error()})
}

// violationResult returns the result of a violated validation: it fails if the policy denies, and is skipped if an exception permits it.
func violationResult(v policy.Violation) openreports.ReportResult {
	result := openreports.ReportResult{Policy: v.Policy, Rule: v.Rule(), Result: warn, Description: v.Message}
	if slices.Contains(v.Actions, v1alpha1.PolicyDeny) {
		result.Result, result.Scored = fail, true
	}
	until := ""
	if v.Exception != "" {
		result.Result, result.Scored, until = skip, false, v.Until.UTC().Format(time.RFC3339)
	}
	at := ""
	if v.Err != nil {
		at = v.Err.Field
	}
	return withProperties(result, propertyParam, v.Param, propertyField, at, propertyException, v.Exception, propertyUntil, until)
}

// withProperties adds properties to a result: names and values in turn, without those that are empty.
func withProperties(result openreports.ReportResult, pairs ...string) openreports.ReportResult {
	result.Properties = maps.Clone(result.Properties)
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == "" {
			continue
		}
		if result.Properties == nil {
			result.Properties = map[string]string{}
		}
		result.Properties[pair[0]] = pair[1]
	}
	return result
}

func (f *findings) countResult(policy string, result openreports.Result) {
	if f.counts[policy] == nil {
		f.counts[policy] = counts{}
	}
	f.counts[policy][result]++
}

// putResult counts a result about an object, and keeps it if the report may list it.
func (f *findings) putResult(object client.Object, result openreports.ReportResult) {
	f.countResult(result.Policy, result.Result)
	key := group{result.Result, result.Policy, result.Rule}
	of := f.groups[key]
	if of == nil {
		of = &results{}
		f.groups[key] = of
	}
	if of.count++; !f.reservePlace(of) {
		return
	}
	kind := object.GetObjectKind().GroupVersionKind()
	result.Source = source
	result.Subjects = []corev1.ObjectReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: object.GetNamespace(),
		Name: object.GetName(), UID: object.GetUID()}}
	of.first = append(of.first, boundedResult(result))
	f.listed++
}

// reservePlace reports whether the report lists one more result of a group. If the report is full, the longest group loses its last result to a shorter one, so
// that one policy does not hide the others.
func (f *findings) reservePlace(of *results) bool {
	if f.listed < mostResults {
		f.longest = max(f.longest, len(of.first)+1)
		return true
	}
	if f.longest <= len(of.first)+1 {
		return false
	}
	longest := of
	for _, key := range slices.SortedFunc(maps.Keys(f.groups), compareGroups) {
		if len(f.groups[key].first) > len(longest.first) {
			longest = f.groups[key]
		}
	}
	if f.longest = len(longest.first); f.longest <= len(of.first)+1 {
		return false
	}
	longest.first = longest.first[:f.longest-1]
	f.listed--
	return true
}

// compareGroups orders groups by their results, strictest first, and then by policy and rule.
func compareGroups(x, y group) int {
	return cmp.Or(cmp.Compare(slices.Index(strictest, x.result), slices.Index(strictest, y.result)),
		strings.Compare(x.policy, y.policy), strings.Compare(x.rule, y.rule))
}

// boundedResult returns a result with texts on one line and within their bounds.
func boundedResult(result openreports.ReportResult) openreports.ReportResult {
	for name, text := range result.Properties {
		result.Properties[name] = shorten.Runes(condition.OneLine(text), mostText)
	}
	result.Description = shorten.Runes(condition.OneLine(result.Description), mostText)
	for most := mostText; most > 1 && encodedLength(result) > mostEncoded; most /= 2 { // a rune may have many bytes in JSON
		result.Description = shorten.Runes(result.Description, most/2)
		if path := result.Properties[propertyField]; path != "" {
			result.Properties[propertyField] = shorten.Runes(path, most/2)
		}
	}
	return result
}

// countAll returns the numbers of all results.
func (f *findings) countAll() openreports.ReportSummary {
	return summaryOf(slices.Collect(maps.Values(f.counts))...)
}

func summaryOf(all ...counts) (sum openreports.ReportSummary) {
	for _, of := range all {
		sum.Pass += of[pass]
		sum.Fail += of[fail]
		sum.Warn += of[warn]
		sum.Error += of[failed]
		sum.Skip += of[skip]
	}
	return sum
}

// listResults returns the results that the report lists, in the order of compareGroups and of the objects. The last one of a group says how many are omitted.
func (f *findings) listResults() (all []openreports.ReportResult) {
	for _, key := range slices.SortedFunc(maps.Keys(f.groups), compareGroups) {
		of := f.groups[key]
		all = append(all, of.first...)
		if omitted := of.count - len(of.first); omitted > 0 && len(of.first) > 0 {
			all[len(all)-1] = withProperties(all[len(all)-1], propertyOmitted, strconv.Itoa(omitted))
		}
	}
	return all
}

// encodedLength returns the length of a result in the API server's store.
func encodedLength(of openreports.ReportResult) int {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // a struct of texts and numbers always marshals
	}
	return len(text)
}
