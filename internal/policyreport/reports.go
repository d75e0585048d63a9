package policyreport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// source is what writes the reports: viewers of reports filter by it.
	source = "kiln"
	// reportName is the name of each Report and of the ClusterReport.
	reportName = "kiln-guestpolicies"
	// labelManagedBy has value source on each report.
	labelManagedBy = "app.kubernetes.io/managed-by"
)

// lookInterval is the time between two attempts to find out whether the cluster serves reports.
const lookInterval = time.Minute

// findReports finds out whether the cluster serves reports, and notes the namespaces that have a report of an earlier leader.
func (a *Auditor) findReports(ctx context.Context) error {
	if a.audited == nil {
		a.audited = map[string]*audited{}
	}
	now := a.Now()
	if a.found || !a.looked.IsZero() && now.Sub(a.looked) < lookInterval {
		return nil
	}
	reports := &metav1.PartialObjectMetadataList{}
	reports.SetGroupVersionKind(openreports.SchemeGroupVersion.WithKind("ReportList"))
	err := a.Live.List(ctx, reports, client.MatchingLabels{labelManagedBy: source})
	switch {
	case apierrors.IsForbidden(err):
		if !a.forbidden {
			a.Log.Info("no reports of OpenReports are written, because this process may not read them", "reason", err.Error())
		}
		a.forbidden, a.looked = true, now
		return nil
	case isUnserved(err):
		a.looked = now
		return nil
	case err != nil:
		return err
	}
	for _, report := range reports.Items {
		if report.Name != reportName {
			continue
		}
		if a.audited[report.Namespace] == nil {
			a.audited[report.Namespace] = &audited{}
		}
		a.audited[report.Namespace].reported = true
	}
	for _, was := range a.audited { // what was audited while nobody served reports has no report
		was.version = [len(was.version)]byte{}
	}
	a.found = true
	return nil
}

// isUnserved reports whether an error says that the API server does not serve a kind. After the removal of a definition it answers 404 while the client still
// knows the kind.
func isUnserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// createReport creates a report. If the kind, or the namespace, is gone, it is looked for again later.
func (a *Auditor) createReport(ctx context.Context, report client.Object) error {
	err := a.Client.Create(ctx, report)
	if isUnserved(err) {
		a.found, a.looked = false, a.Now()
		return nil
	}
	return err
}

// reportLimits say which results a report lists.
func reportLimits() *openreports.ReportConfiguration {
	return &openreports.ReportConfiguration{Limits: openreports.Limits{MaxResults: mostResults,
		StatusFilter: []openreports.StatusFilter{"fail", "error", "warn", "skip"}}}
}

// writeReport writes the report of a namespace if it differs from the stored one. A namespace in which no policy selects an object has none.
func (a *Auditor) writeReport(ctx context.Context, found *findings) error {
	switch {
	case !a.found:
		return nil
	case len(found.counts) == 0:
		return a.deleteReport(ctx, found.namespace)
	}
	stored, err := objects.GetOrNil(ctx, a.Live, client.ObjectKey{Namespace: found.namespace, Name: reportName}, &openreports.Report{})
	if err != nil && !isUnserved(err) {
		return err
	}
	next := &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: found.namespace, Name: reportName}}
	if stored != nil {
		next = stored.DeepCopy()
	}
	next.Labels = withManagedBy(next.Labels)
	next.Source, next.Configuration, next.Summary = source, reportLimits(), found.countAll()
	next.Scope = &corev1.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Namespace", Name: found.namespace}
	next.ScopeSelector = nil
	next.Results = a.withTimes(found.listResults(), next.Results)
	if stored == nil {
		return a.createReport(ctx, next)
	}
	if equality.Semantic.DeepEqual(stored, next) {
		return nil
	}
	return objects.Patch(ctx, a.Client, next, stored)
}

// deleteReport deletes the report of a namespace, if it has one.
func (a *Auditor) deleteReport(ctx context.Context, namespace string) error {
	if was := a.audited[namespace]; was == nil || !was.reported {
		return nil
	}
	return client.IgnoreNotFound(a.Client.Delete(ctx, &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: reportName}}))
}

// withManagedBy returns labels with the label of Kiln's reports.
func withManagedBy(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelManagedBy] = source
	return labels
}

// withTimes gives each result the time at which a report first contained it.
func (a *Auditor) withTimes(results, before []openreports.ReportResult) []openreports.ReportResult {
	times := map[string]metav1.Timestamp{}
	for _, was := range before {
		times[resultIdentity(was)] = was.Timestamp
	}
	now := metav1.Timestamp{Seconds: a.Now().Unix()}
	for i := range results {
		results[i].Timestamp = now
		if first, known := times[resultIdentity(results[i])]; known {
			results[i].Timestamp = first
		}
	}
	return results
}

// resultIdentity is what makes a result the same as an earlier one. Its message and properties may change.
func resultIdentity(of openreports.ReportResult) string {
	subject := ""
	if len(of.Subjects) == 1 {
		subject = string(of.Subjects[0].UID)
	}
	return strings.Join([]string{string(of.Result), of.Policy, of.Rule, of.Properties[propertyParam], subject}, "\n")
}

// totals are the results of one policy in all namespaces.
type totals struct {
	counts     counts
	namespaces int
}

// byPolicy returns the results of each policy in all namespaces; policies that select no object have none.
func (a *Auditor) byPolicy() map[string]totals {
	all := map[string]totals{}
	for _, p := range a.policies {
		all[p.Name] = totals{counts: counts{}}
	}
	for _, of := range a.audited {
		for name, found := range of.counts {
			total, known := all[name]
			if !known {
				total.counts = counts{}
			}
			for result, count := range found {
				total.counts[result] += count
			}
			total.namespaces++
			all[name] = total
		}
	}
	return all
}

// writeClusterReport writes the report about the policies if it differs from the stored one: one result for each policy. It reads the stored one only if the
// results have changed, or after a long time.
func (a *Auditor) writeClusterReport(ctx context.Context) error {
	var results []openreports.ReportResult
	sum, all := counts{}, a.byPolicy()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		result := policyResult(name, all[name])
		sum[result.Result]++
		if len(results) < mostResults {
			results = append(results, result)
		}
	}
	now := a.Now()
	if !a.compared.IsZero() && now.Sub(a.compared) < repeated && equality.Semantic.DeepEqual(results, a.overview) {
		return nil
	}
	stored, err := objects.GetOrNil(ctx, a.Live, client.ObjectKey{Name: reportName}, &openreports.ClusterReport{})
	if err != nil && !isUnserved(err) {
		return err
	}
	overview := slices.Clone(results)
	next := &openreports.ClusterReport{ObjectMeta: metav1.ObjectMeta{Name: reportName}}
	if stored != nil {
		next = stored.DeepCopy()
	}
	next.Labels = withManagedBy(next.Labels)
	next.Source, next.Scope, next.ScopeSelector = source, nil, nil
	next.Configuration = &openreports.ReportConfiguration{Limits: openreports.Limits{MaxResults: mostResults}}
	next.Summary, next.Results = summaryOf(sum), a.withTimes(results, next.Results)
	switch {
	case len(results) == 0:
		err = client.IgnoreNotFound(a.Client.Delete(ctx, next))
	case stored == nil:
		err = a.createReport(ctx, next)
	case !equality.Semantic.DeepEqual(stored, next):
		err = objects.Patch(ctx, a.Client, next, stored)
	}
	if err == nil {
		a.overview, a.compared = overview, now
	}
	return err
}

// policyResult returns the result of a policy: the strictest of its results, and their numbers.
func policyResult(name string, of totals) openreports.ReportResult {
	result := openreports.ReportResult{Source: source, Policy: name, Result: skip, Description: "it selects no VM"}
	if name != notEvaluated {
		result.Subjects = []corev1.ObjectReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindGuestPolicy, Name: name}}
	}
	var parts []string
	for _, kind := range strictest {
		count := of.counts[kind]
		if count == 0 {
			continue
		}
		if len(parts) == 0 {
			result.Result = kind
		}
		parts = append(parts, fmt.Sprintf("%s: %d", kind, count))
		result = withProperties(result, string(kind), strconv.Itoa(count))
	}
	result.Scored = result.Result == fail
	if len(parts) > 0 {
		result.Description = fmt.Sprintf("%s; namespaces: %d", strings.Join(parts, ", "), of.namespaces)
	}
	return result
}
