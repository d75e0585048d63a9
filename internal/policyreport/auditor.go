// Package policyreport evaluates the GuestPolicies on the stored VMs, and writes the results as reports of OpenReports (openreports.io) and as metrics.
package policyreport

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/policy"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// interval is the least time between two rounds. A round without a change only reads the cache.
	interval = 10 * time.Second
	// share bounds the time that rounds take: the pause after a round is share times its time. A round takes one core at most, so a tenant who edits VMs all
	// the time costs a tenth of one core.
	share = 9
	// look is how often a pause looks for changed policies.
	look = time.Second
	// repeated is the time after which a namespace is audited again in which no VM has changed: an instancetype, a profile or the configuration may have.
	repeated = time.Hour
	// mostTime bounds the time of one namespace, so that VMs on which policies take long do not delay other namespaces for long. The token of a page is valid for
	// five minutes.
	mostTime = 2 * time.Minute
	// mostTimeOfObject bounds the time of one VM. A review at admission has less.
	mostTimeOfObject = 5 * time.Second
	// pageSize is how many objects are read at a time, so that the memory of a round does not depend on the size of a namespace.
	pageSize = 500
)

// Auditor evaluates the GuestPolicies in the background. It runs on the leader. A round audits the namespaces whose VMs or policies have changed since they
// were audited; a namespace whose audit failed is audited in the next round, and keeps its report until then.
type Auditor struct {
	// Client reads metadata of VMs and VMIs from a cache, and writes reports and the annotation kilnvm.io/excepted.
	Client client.Client
	// Live reads whole VMs and VMIs, and the reports.
	Live client.Reader
	// Reviewer evaluates the policies on objects that are stored.
	Reviewer review.Reviewer
	// Namespaces are the namespaces that are audited; nil for all.
	Namespaces *enforcement.Namespaces
	Now        func() time.Time
	Log        logr.Logger

	policies []*policy.Policy
	// vms are the names of all VMs by UID.
	vms map[types.UID]string
	// audited are the results of each namespace with VMs, or with a report that must go.
	audited map[string]*audited
	// found reports that the cluster serves reports, and that the reports of an earlier leader are known. looked is when that was last tried.
	found  bool
	looked time.Time
	// forbidden reports that it was logged that this process may not read reports.
	forbidden bool
	// overview are the results of the ClusterReport as it was compared last, and compared is when that was.
	overview []openreports.ReportResult
	compared time.Time
}

// audited is the last audit of a namespace.
type audited struct {
	// version is what the namespace contained; empty if it must be audited again.
	version [sha256.Size]byte
	at      time.Time
	// until is when the first exception ends by which a VM violates a policy; zero without one.
	until time.Time
	// counts are the numbers of results by policy.
	counts map[string]counts
	// reported reports that the namespace has a report.
	reported bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: two writers would replace each other's reports.
func (*Auditor) NeedLeaderElection() bool { return true }

// Register adds the auditor to a manager.
func (a *Auditor) Register(mgr ctrl.Manager) error { return mgr.Add(a) }

// Start runs rounds until the context ends. The first one begins when the policies have been read.
func (a *Auditor) Start(ctx context.Context) error {
	for _, err := a.Reviewer.CurrentPolicies(); err != nil; _, err = a.Reviewer.CurrentPolicies() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	for owed := time.Duration(0); ctx.Err() == nil; {
		began := a.Now()
		if err := a.auditChanged(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "auditing stored VMs; the next round repeats it")
		}
		owed = a.pause(ctx, pauseAfter(a.Now().Sub(began))+owed, owed == 0)
	}
	return nil
}

// pauseAfter returns the time from the end of a round to the next one.
func pauseAfter(took time.Duration) time.Duration { return max(interval, share*took) }

// pause waits for a time. If it may be cut, it ends when the policies in force differ from the policies of the last round and have not changed for an interval:
// an administrator who has changed policies does not wait for a long pause. It returns the time that it did not wait, which the next pause adds: policies that
// change all the time, as with params of tenants, do not make more rounds.
func (a *Auditor) pause(ctx context.Context, wait time.Duration, cut bool) (owed time.Duration) {
	policies, unchanged := a.policies, time.Duration(0)
	for wait > 0 {
		step := min(look, wait)
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(step):
		}
		wait, unchanged = wait-step, unchanged+step
		now, err := a.Reviewer.CurrentPolicies()
		switch {
		case err != nil:
		case !slices.Equal(now, policies):
			policies, unchanged = now, 0
		case cut && unchanged >= interval && !slices.Equal(policies, a.policies):
			return wait
		}
	}
	return 0
}

// auditChanged runs one round. It continues with the next namespace after an error, and returns all errors.
func (a *Auditor) auditChanged(ctx context.Context) error {
	policies, err := a.Reviewer.CurrentPolicies()
	if err != nil {
		return err
	}
	if err := a.findReports(ctx); err != nil {
		return err
	}
	contents, err := a.readContents(ctx)
	if err != nil {
		return err
	}
	if len(policies) == 0 {
		contents = nil // nothing to report
	}
	if !slices.Equal(policies, a.policies) {
		a.policies = policies
		for _, was := range a.audited {
			was.version = [sha256.Size]byte{}
		}
	}
	var failed []error
	for _, namespace := range a.namespacesOf(contents) {
		if err := a.auditNamespace(ctx, namespace, contents[namespace]); err != nil {
			failed = append(failed, fmt.Errorf("namespace '%s': %w", namespace, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	a.publishCounts()
	if a.found {
		if err := a.writeClusterReport(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// namespacesOf returns the names of the namespaces with VMs, and of the namespaces that had some, sorted.
func (a *Auditor) namespacesOf(contents map[string]content) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(contents)), maps.Keys(a.audited))
	slices.Sort(names)
	return slices.Compact(names)
}

// content is what a namespace contains.
type content struct {
	version [sha256.Size]byte
	// vmis reports that there are VMIs without a VM.
	vmis bool
}

// readContents returns what each namespace contains that is audited and has a VM, or a VMI without a VM. It reads the cache.
func (a *Auditor) readContents(ctx context.Context) (map[string]content, error) {
	var vms v1.VirtualMachineList
	var vmis v1.VirtualMachineInstanceList
	if err := errors.Join(a.Client.List(ctx, &vms, client.UnsafeDisableDeepCopy), a.Client.List(ctx, &vmis, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, err
	}
	lines, all := map[string][]string{}, map[string]content{}
	a.vms = map[types.UID]string{}
	for i := range vms.Items {
		of := &vms.Items[i]
		a.vms[of.UID] = of.Name
		lines[of.Namespace] = append(lines[of.Namespace], versionLine(of))
	}
	for i := range vmis.Items {
		if of := &vmis.Items[i]; !a.madeByVM(of) {
			lines[of.Namespace] = append(lines[of.Namespace], versionLine(of))
			all[of.Namespace] = content{vmis: true}
		}
	}
	for namespace, lines := range lines {
		judged := true
		if a.Namespaces != nil {
			var err error
			if judged, err = a.Namespaces.JudgesNamed(ctx, a.Client, a.Live, namespace); err != nil {
				return nil, err
			}
		}
		if !judged {
			delete(all, namespace)
			continue
		}
		slices.Sort(lines)
		is := all[namespace]
		is.version = sha256.Sum256([]byte(strings.Join(lines, "\n")))
		all[namespace] = is
	}
	return all, nil
}

// versionLine identifies a version of an object. The resource version also changes with annotations that the cache does not contain, and with the status.
func versionLine(of client.Object) string { return string(of.GetUID()) + " " + of.GetResourceVersion() }

// madeByVM reports whether a VM created a VMI: the policies are evaluated on the VM. A tenant may write an owner reference, so the VM must exist and have the
// name of the VMI.
func (a *Auditor) madeByVM(vmi client.Object) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind && a.vms[owner.UID] == vmi.GetName()
}

// auditNamespace evaluates the policies on the objects of a namespace, and writes its report, if anything has changed since it did so.
func (a *Auditor) auditNamespace(ctx context.Context, namespace string, is content) error {
	was, now := a.audited[namespace], a.Now()
	if is == (content{}) { // there are no VMs any more
		err := a.deleteReport(ctx, namespace)
		if err == nil {
			delete(a.audited, namespace)
		}
		return err
	}
	if was != nil && was.version == is.version && now.Sub(was.at) < repeated && (was.until.IsZero() || now.Before(was.until)) {
		return nil
	}
	found := newFindings(namespace)
	err := a.eachObject(ctx, namespace, is.vmis, func(object *unstructured.Unstructured) error { return a.evaluateObject(ctx, found, object, now) })
	if err != nil {
		return err
	}
	next := &audited{version: is.version, at: now, until: found.until, counts: found.counts, reported: was != nil && was.reported}
	if found.again {
		next.version = [sha256.Size]byte{}
	}
	if err = a.writeReport(ctx, found); err != nil { // a tenant may own what stands in its way: the metric and the ClusterReport count the results
		next.version = [sha256.Size]byte{}
	} else {
		next.reported = a.found && len(found.counts) > 0
	}
	a.audited[namespace] = next
	return err
}

// eachObject reads the VMs, and the VMIs without a VM, of a namespace in pages.
func (a *Auditor) eachObject(ctx context.Context, namespace string, vmis bool, visit func(*unstructured.Unstructured) error) error {
	kinds := []string{v1.VirtualMachineGroupVersionKind.Kind}
	if vmis {
		kinds = append(kinds, v1.VirtualMachineInstanceGroupVersionKind.Kind)
	}
	for _, kind := range kinds {
		for next := ""; ; {
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(v1.GroupVersion.WithKind(kind + "List"))
			if err := a.Live.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
				return err
			}
			for i := range page.Items {
				if err := visit(&page.Items[i]); err != nil {
					return err
				}
			}
			if next = page.GetContinue(); next == "" {
				break
			}
		}
	}
	return ctx.Err()
}
