package policyreport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/test/fakecluster"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// auditTest is an auditor over a cluster in memory, with a clock and policies that a test sets.
type auditTest struct {
	*testing.T
	*Auditor
	stored     client.WithWatch
	now        time.Time
	inForce    []*policy.Policy
	exceptions []*policy.Exception
	// pages are the namespaces of which whole VMs were read, and writes the writes of reports, since they were last emptied.
	pages, writes []string
	// notServed and broken are faults of the API server: it does not serve reports, or does not answer about VMs of a namespace.
	notServed bool
	broken    string
	// refuses is a fault, too: it refuses the Reports of namespaces. refusesVM is what it answers to a write of a VM.
	refuses   bool
	refusesVM error
}

func newAudit(t *testing.T, objects ...client.Object) *auditTest {
	t.Helper()
	a := &auditTest{T: t, now: time.Unix(1e9, 0)}
	noReports := func(kind schema.GroupVersionKind) error {
		if a.notServed && kind.Group == openreports.GroupName {
			return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
		}
		return nil
	}
	wrote := func(verb string, object client.Object) {
		a.writes = append(a.writes, strings.TrimSpace(verb+" "+object.GetNamespace()))
	}
	a.stored = fakecluster.NewClient(t, nil, objects...)
	counted := interceptor.NewClient(a.stored, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			wanted := client.ListOptions{}
			wanted.ApplyOptions(options)
			if wanted.Limit > 0 {
				a.pages = append(a.pages, wanted.Namespace)
				if wanted.Namespace == a.broken {
					return errors.New("no answer")
				}
			}
			if err := noReports(list.GetObjectKind().GroupVersionKind()); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, isReport := object.(*openreports.Report); isReport && a.notServed {
				return apierrors.NewNotFound(openreports.Resource("reports"), key.Name)
			}
			return c.Get(ctx, key, object, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			wrote("create", object)
			switch _, isReport := object.(*openreports.Report); {
			case a.notServed:
				return apierrors.NewNotFound(openreports.Resource("reports"), "")
			case a.refuses && isReport:
				return apierrors.NewForbidden(openreports.Resource("reports"), object.GetName(), errors.New("a quota of the tenant"))
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			wrote("patch", object)
			if object.GetObjectKind().GroupVersionKind().Kind == v1.VirtualMachineGroupVersionKind.Kind && a.refusesVM != nil {
				return a.refusesVM
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			wrote("delete", object)
			return c.Delete(ctx, object, options...)
		},
	})
	a.Auditor = a.newLeader(counted)
	return a
}

// newLeader returns an auditor that has just become the leader.
func (a *auditTest) newLeader(c client.Client) *Auditor {
	now := func() time.Time { return a.now }
	return &Auditor{Client: c, Live: c, Log: logr.Discard(), Now: now, Reviewer: review.Reviewer{
		Resolver: resolve.Resolver{Cached: c, Live: c}, Configuration: config.Default, Stored: true, Now: now,
		Policies:   func() ([]*policy.Policy, error) { return a.inForce, nil },
		Exceptions: func(string) []*policy.Exception { return a.exceptions },
	}}
}

// round runs one round some time later, and returns its writes.
func (a *auditTest) round(later time.Duration) []string {
	a.Helper()
	a.now = a.now.Add(later)
	a.pages, a.writes = nil, nil
	if err := a.auditChanged(a.Context()); err != nil && a.broken == "" {
		a.Fatal(err)
	}
	return a.writes
}

// report returns the lines of the results of a namespace's report, or of the ClusterReport, and its summary.
func (a *auditTest) report(namespace string) string {
	a.Helper()
	var results []openreports.ReportResult
	var sum openreports.ReportSummary
	key := client.ObjectKey{Namespace: namespace, Name: reportName}
	var err error
	if namespace == "" {
		var of openreports.ClusterReport
		err = a.stored.Get(a.Context(), key, &of)
		results, sum = of.Results, of.Summary
	} else {
		var of openreports.Report
		err = a.stored.Get(a.Context(), key, &of)
		results, sum = of.Results, of.Summary
	}
	if err != nil {
		return client.IgnoreNotFound(err).Error()
	}
	lines := []string{fmt.Sprint(sum)}
	for _, one := range results {
		subject := ""
		if len(one.Subjects) > 0 {
			subject = one.Subjects[0].Name
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d: %s", one.Result, one.Policy, subject, one.Timestamp.Seconds-1e9, one.Description))
	}
	return strings.Join(lines, "\n")
}

// approvers may approve exceptions.
var approvers = []v1alpha1.GuestPolicyApprover{{Kind: "User", Name: "bob"}}

// compiled is a policy by which a VM has at most so many sockets.
func compiled(t *testing.T, name string, sockets int, action v1alpha1.GuestPolicyAction) *policy.Policy {
	t.Helper()
	of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	of.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{action}
	of.Spec.Exceptions = &v1alpha1.GuestPolicyExceptions{Allowed: true, MaxDuration: &metav1.Duration{Duration: time.Hour}, Approvers: approvers}
	of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Name: "sockets", Message: "too many sockets",
		Expression: fmt.Sprintf("guest.spec.domain.cpu.sockets <= %du", sockets)}}
	made, mistakes := policy.Compile(of)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return made
}

// machine is a VM with sockets.
func machine(namespace, name string, sockets uint32) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain = v1.DomainSpec{CPU: &v1.CPU{Sockets: sockets}, Memory: &v1.Memory{Guest: new(resource.MustParse("1Gi"))}}
	return vm
}

// loneVMI is a VMI without a VM.
func loneVMI(namespace, name string, sockets uint32) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	vmi.Spec = machine("", "", sockets).Spec.Template.Spec
	return vmi
}

// ownedBy returns a VMI with the owner reference of a VM with its name.
func ownedBy(vmi *v1.VirtualMachineInstance, uid types.UID) *v1.VirtualMachineInstance {
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachine", Name: vmi.Name, UID: uid, Controller: new(true)}}
	return vmi
}

// edit changes the sockets of a stored VM.
func (a *auditTest) edit(namespace, name string, sockets uint32) {
	a.Helper()
	var vm v1.VirtualMachine
	if err := a.stored.Get(a.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &vm); err != nil {
		a.Fatal(err)
	}
	vm.Spec.Template.Spec.Domain.CPU.Sockets = sockets
	if err := a.stored.Update(a.Context(), &vm); err != nil {
		a.Fatal(err)
	}
}

// same fails unless two texts are equal.
func (a *auditTest) same(why, got, want string) {
	a.Helper()
	if got != want {
		a.Errorf("%s: got\n%s\nwant\n%s", why, got, want)
	}
}

// TestRounds: a namespace is audited again if its VMs or the policies have changed, and only what differs is written.
func TestRounds(t *testing.T) {
	owned := ownedBy(loneVMI("shop", "a", 8), "shopa")
	a := newAudit(t, machine("shop", "a", 1), machine("shop", "b", 4), loneVMI("shop", "lone", 3), owned, machine("test", "c", 2), machine("empty", "d", 1))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny), compiled(t, "one", 1, v1alpha1.PolicyWarn)}

	a.round(0)
	a.same("shop", a.report("shop"), "{2 2 2 0 0}\nfail few b 0: too many sockets\nfail few lone 0: too many sockets\n"+
		"warn one b 0: too many sockets\nwarn one lone 0: too many sockets")
	a.same("test", a.report("test"), "{1 0 1 0 0}\nwarn one c 0: too many sockets")
	a.same("empty", a.report("empty"), "{2 0 0 0 0}")
	a.same("cluster", a.report(""), "{0 1 1 0 0}\nfail few few 0: fail: 2, pass: 3; namespaces: 3\nwarn one one 0: warn: 3, pass: 2; namespaces: 3")
	if n := testutil.ToFloat64(resultsOfPolicies.WithLabelValues("one", "warn")); n != 3 {
		t.Errorf("the metric counts %v", n)
	}
	if writes := a.round(interval); len(writes) > 0 || len(a.pages) > 0 {
		t.Errorf("a round without a change reads %v and writes %v", a.pages, writes)
	}

	a.edit("shop", "b", 2)
	a.same("writes", strings.Join(a.round(interval), ", "), "patch shop, patch")
	if !slices.Equal(slices.Compact(a.pages), []string{"shop"}) {
		t.Errorf("after an edit in one namespace, VMs of %v are read", a.pages)
	}
	a.same("shop", a.report("shop"), "{3 1 2 0 0}\nfail few lone 0: too many sockets\nwarn one b 0: too many sockets\nwarn one lone 0: too many sockets")

	a.inForce = []*policy.Policy{compiled(t, "one", 1, v1alpha1.PolicyDeny)}
	a.round(interval)
	a.same("another policy", a.report("shop"), "{1 2 0 0 0}\nfail one b 30: too many sockets\nfail one lone 30: too many sockets")

	if err := a.stored.Delete(t.Context(), machine("test", "c", 1)); err != nil {
		t.Fatal(err)
	}
	a.same("writes", strings.Join(a.round(interval), ", "), "delete test, patch")
	if writes := a.round(interval); len(writes) > 0 {
		t.Errorf("a round without a change writes %v", writes)
	}
	if a.round(repeated); len(a.pages) == 0 || len(a.writes) > 0 {
		t.Errorf("after an hour VMs of %v are read, and %v is written", a.pages, a.writes)
	}
	a.inForce = nil
	a.same("no policy", strings.Join(a.round(interval), ", "), "delete empty, delete shop, delete")
	if n := testutil.CollectAndCount(resultsOfPolicies); n != 0 {
		t.Errorf("%d values of the metric", n)
	}
}

// TestPauses: the time until the next round bounds the share of a core that rounds take.
func TestPauses(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{0: interval, time.Second: interval, 30 * time.Second: 270 * time.Second} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after a round of %s, a pause of %s", took, got)
		}
	}
}

// TestPauseAfterChangedPolicies: a long pause ends ten seconds after the last change of policies, and only once, because the next pause adds what was cut.
func TestPauseAfterChangedPolicies(t *testing.T) {
	t.Parallel()
	before, after := []*policy.Policy{{Name: "a"}}, []*policy.Policy{{Name: "a"}}
	const long = time.Minute * 5
	for why, test := range map[string]struct {
		wait time.Duration
		cut  bool
		// changed are the times at which the policies change, from one value to the other and back.
		changed []time.Duration
		// waited is how long the pause takes, give or take a look.
		waited time.Duration
	}{
		"no change":                        {long, true, nil, long},
		"a change":                         {long, true, []time.Duration{time.Second * 30}, time.Second * 40},
		"a change during the round":        {long, true, []time.Duration{0}, interval},
		"several changes":                  {long, true, []time.Duration{1 * time.Second, 8 * time.Second, 16 * time.Second}, time.Second * 26},
		"a change that is taken back":      {long, true, []time.Duration{1 * time.Second, 8 * time.Second}, long},
		"a change at the end of the pause": {time.Second * 12, true, []time.Duration{5 * time.Second}, time.Second * 12},
		"the last pause was cut":           {long, false, []time.Duration{time.Second * 30}, long},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := &Auditor{policies: before, Now: time.Now, Reviewer: review.Reviewer{Policies: func() ([]*policy.Policy, error) {
					now := before
					for i, at := range test.changed {
						if time.Since(began) >= at && i%2 == 0 {
							now = after
						} else if time.Since(began) >= at {
							now = before
						}
					}
					return now, nil
				}}}
				owed := a.pause(t.Context(), test.wait, test.cut)
				waited := time.Since(began)
				if late := waited - test.waited; late < 0 || late > look || waited+owed != test.wait {
					t.Errorf("waited %s, want %s; owed %s of %s", waited, test.waited, owed, test.wait)
				}
			})
		})
	}
}

// TestNextLeader: an earlier leader's reports are compared and not written anew, and a report goes whose VMs went while nobody was the leader.
func TestNextLeader(t *testing.T) {
	a := newAudit(t, machine("shop", "b", 4), machine("test", "c", 4))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.round(0)
	was := a.report("shop")
	if err := a.stored.Delete(t.Context(), machine("test", "c", 4)); err != nil {
		t.Fatal(err)
	}
	a.Auditor = a.newLeader(a.Client)
	a.same("writes", strings.Join(a.round(interval), ", "), "delete test, patch")
	a.same("shop", a.report("shop"), was)

	// A report that somebody has edited is written again.
	var report openreports.Report
	key := client.ObjectKey{Namespace: "shop", Name: reportName}
	if err := a.stored.Get(t.Context(), key, &report); err != nil {
		t.Fatal(err)
	}
	report.Results = nil
	if err := a.stored.Update(t.Context(), &report); err != nil {
		t.Fatal(err)
	}
	a.same("writes", strings.Join(a.round(repeated), ", "), "patch shop")
}

// TestFaults: without OpenReports the results are metrics only, and a namespace whose VMs cannot be read keeps its report and delays no other one.
func TestFaults(t *testing.T) {
	a := newAudit(t, machine("shop", "b", 4), machine("test", "c", 4))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.notServed = true
	if writes := a.round(0); len(writes) > 0 || testutil.ToFloat64(resultsOfPolicies.WithLabelValues("few", "fail")) != 2 {
		t.Errorf("without OpenReports %v is written", writes)
	}
	a.notServed = false
	a.same("installed later", strings.Join(a.round(lookInterval), ", "), "create shop, create test, create")

	a.notServed = true // the definitions are removed, and installed again
	a.edit("shop", "b", 3)
	a.same("removed", strings.Join(a.round(interval), ", "), "create shop")
	a.notServed = false
	a.round(interval)
	a.same("again", strings.Join(a.round(lookInterval), ", "), "")
	a.edit("shop", "b", 4)
	a.round(interval)

	a.edit("shop", "b", 1)
	a.edit("test", "c", 1)
	a.broken = "shop"
	a.same("a broken namespace", strings.Join(a.round(interval), ", "), "patch test, patch")
	a.same("shop", a.report("shop"), "{0 1 0 0 0}\nfail few b 60: too many sockets")
	a.broken = ""
	a.same("mended", strings.Join(a.round(interval), ", "), "patch shop, patch")
}

// approveException has VMs of namespace 'shop' violate policy 'few' for ten minutes.
func (a *auditTest) approveException(names ...string) {
	of := &v1alpha1.GuestPolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "big", Generation: 1,
		CreationTimestamp: metav1.NewTime(a.now)}}
	of.Spec.Policies = []v1alpha1.GuestPolicyExceptionPolicy{{Name: "few"}}
	of.Spec.VirtualMachines.Names = names
	of.Spec.Expires, of.Spec.RequestedBy = metav1.NewTime(a.now.Add(10*time.Minute)), "ann"
	of.Status.Approvals = []v1alpha1.GuestPolicyExceptionApproval{{Policy: "few", By: "bob", As: approvers[0], Generation: 1}}
	a.exceptions = []*policy.Exception{policy.NewException(of)}
}

// TestExceptionEnds: a violation that an exception permits is skipped, until the exception ends without any event.
func TestExceptionEnds(t *testing.T) {
	a := newAudit(t, machine("shop", "b", 4))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.approveException("b")
	a.round(0)
	if got := a.report("shop"); !strings.HasPrefix(got, "{0 0 0 0 1}\nskip few b 0:") {
		t.Fatal(got)
	}
	if a.round(interval); len(a.pages) != 1 {
		t.Errorf("the annotated VM is read %d times", len(a.pages))
	}
	if a.round(9 * time.Minute); len(a.pages) > 0 {
		t.Errorf("VMs are read before the exception ends")
	}
	a.round(time.Minute)
	a.same("ended", a.report("shop"), "{0 1 0 0 0}\nfail few b 610: too many sockets")
}

// TestUnjudgedNamespaces: a namespace in which Kiln does not evaluate policies has no report.
func TestUnjudgedNamespaces(t *testing.T) {
	disabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: map[string]string{v1alpha1.LabelAdmission: v1alpha1.AdmissionDisabled}}}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	a := newAudit(t, disabled, shop, machine("shop", "b", 4), machine("test", "c", 4), loneVMI("test", "d", 4))
	a.Namespaces = &enforcement.Namespaces{Selection: enforcement.OptOut}
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.same("writes", strings.Join(a.round(0), ", "), "create shop, create")
	shop.Labels = disabled.Labels
	if err := a.stored.Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	a.same("writes", strings.Join(a.round(interval), ", "), "delete shop, patch")
}

// TestForgedOwner: a VMI with an owner reference that its author has written is audited: the VM does not exist, or has another name.
func TestForgedOwner(t *testing.T) {
	a := newAudit(t, machine("shop", "a", 1), ownedBy(loneVMI("shop", "none", 4), "none"), ownedBy(loneVMI("shop", "other", 4), "shopa"))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.round(0)
	a.same("shop", a.report("shop"), "{1 2 0 0 0}\nfail few none 0: too many sockets\nfail few other 0: too many sockets")
}

// TestObjectsThatCannotBeEvaluated: an object on which a review fails, panics or takes too long is a result, hides no other one, and is evaluated again.
func TestObjectsThatCannotBeEvaluated(t *testing.T) {
	a := newAudit(t, machine("shop", "a", 4), machine("shop", "b", 4))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	calls := 0
	onSecond := func(do func()) { // of two VMs, of which each is reviewed with its exceptions
		calls = 0
		a.Reviewer.Exceptions = func(string) []*policy.Exception {
			if calls++; calls == 1 {
				do()
			}
			return nil
		}
	}
	onSecond(func() { panic("hostile") })
	a.round(0)
	a.same("a panic", a.report("shop"), "{0 1 0 1 0}\nfail few b 0: too many sockets\n"+
		"error * a 0: no policy can be evaluated: an internal error, which the log of the controller contains")
	onSecond(func() {})
	a.round(interval)
	a.same("the next round", a.report("shop"), "{0 2 0 0 0}\nfail few a 10: too many sockets\nfail few b 0: too many sockets")

	a.edit("shop", "a", 3)
	onSecond(func() { a.now = a.now.Add(mostTime + time.Second) })
	a.round(interval)
	a.same("a slow one", a.report("shop"), "{0 1 0 1 0}\nfail few a 10: too many sockets\n"+
		"error * b 141: no policy can be evaluated: the audit of the namespace had taken 2m0s")
}

// TestReportThatCannotBeWritten: whatever stands in the way of a report, the results are counted.
func TestReportThatCannotBeWritten(t *testing.T) {
	a := newAudit(t, machine("shop", "b", 4))
	a.inForce = []*policy.Policy{compiled(t, "few", 2, v1alpha1.PolicyDeny)}
	a.refuses = true
	if err := a.auditChanged(t.Context()); err == nil {
		t.Error("the report was written")
	}
	a.same("cluster", a.report(""), "{0 1 0 0 0}\nfail few few 0: fail: 1; namespaces: 1")
	a.refuses = false
	a.same("writes", strings.Join(a.round(interval), ", "), "create shop")
}
