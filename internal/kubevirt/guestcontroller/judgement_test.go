package guestcontroller

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/kilnvm/kiln/test/slimmed"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// judgeTest is a judge with a clock and with policies that a test sets.
type judgeTest struct {
	*testCluster
	judge    *judge
	now      time.Time
	policies []*policy.Policy
	events   *events.FakeRecorder
}

func newJudge(t *testing.T, vm *v1.VirtualMachine) *judgeTest {
	t.Helper()
	c := newCluster(t, vm)
	j := &judgeTest{testCluster: c, now: time.Unix(1e9, 0), events: events.NewFakeRecorder(100)}
	stored, _ := c.Client.(client.WithWatch)
	j.judge = &judge{client: slimmed.Client(stored), live: c.Client, events: j.events, limit: rate.NewLimiter(rate.Inf, 1),
		now:             func() time.Time { return j.now },
		policiesChanged: make(chan event.GenericEvent, 1), seen: map[types.NamespacedName]*seenVM{},
		reviewer: review.Reviewer{Resolver: resolve.Resolver{Cached: c.Client, Live: c.Client}, Stored: true,
			Configuration: config.Default, Policies: func() ([]*policy.Policy, error) { return j.policies, nil }}}
	return j
}

// after reconciles the VM some time later, and returns its annotation and the time until the next reconcile.
func (j *judgeTest) after(later time.Duration) (refused string, again time.Duration) {
	j.Helper()
	j.now = j.now.Add(later)
	result, err := j.judge.Reconcile(j.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		j.Fatal(err)
	}
	var vm v1.VirtualMachine
	if err := j.Get(j.Context(), key, &vm); client.IgnoreNotFound(err) != nil {
		j.Fatal(err)
	}
	return vm.Annotations[v1alpha1.AnnotationRefused], result.RequeueAfter
}

// edit changes the stored VM as its owner does.
func (j *judgeTest) edit(change func(*v1.VirtualMachine)) {
	j.Helper()
	var vm v1.VirtualMachine
	if err := j.Get(j.Context(), key, &vm); err != nil {
		j.Fatal(err)
	}
	vm.Generation++
	change(&vm)
	if err := j.Update(j.Context(), &vm); err != nil {
		j.Fatal(err)
	}
}

// unjudged is a VM that admission would refuse: a guest with more sockets than its maximum.
func unjudged() *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "1", Generation: 1,
		Annotations: map[string]string{"example.org/foreign": "text"}}}
	vm.Spec.RunStrategy = new(v1.RunStrategyHalted)
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Sockets: 4, MaxSockets: 2}
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: new(resource.MustParse("1Gi"))}
	return vm
}

// TestJudge: a VM that was written without admission has the annotation until it is mended, and is judged once for each version of it.
func TestJudge(t *testing.T) {
	j := newJudge(t, unjudged())
	if refused, again := j.after(0); refused != "" || again != settles {
		t.Fatalf("%q, again after %s: a VM that is being written is judged when it has settled", refused, again)
	}
	refused, again := j.after(settles)
	if !strings.Contains(refused, "spec.template.spec.domain.cpu") || again != judgedAgain || testutil.ToFloat64(refusedVMs) != 1 {
		t.Fatalf("%q, again after %s, %v counted", refused, again, testutil.ToFloat64(refusedVMs))
	}
	if len(j.events.Events) != 1 {
		t.Errorf("%d events, want one", len(j.events.Events))
	}
	j.judge.live = nil // a judgement would end the test
	if again, _ := j.after(judgedAgain / 2); again != refused {
		t.Errorf("%q, then %q", refused, again)
	}
	j.edit(func(vm *v1.VirtualMachine) { // by a hostile owner
		vm.Generation--
		vm.Annotations[v1alpha1.AnnotationRefused] = "nothing to see"
	})
	if is, _ := j.after(time.Second); is != refused {
		t.Errorf("the owner has hidden it: %q", is)
	}
	j.judge.live = j.Client
	j.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU.MaxSockets = 8 })
	j.after(time.Second)
	if is, again := j.after(settles); is != "" || again != 0 || testutil.ToFloat64(refusedVMs) != 0 {
		t.Errorf("it was mended: %q, again after %s, %v counted", is, again, testutil.ToFloat64(refusedVMs))
	}
	j.edit(func(vm *v1.VirtualMachine) {
		vm.Generation--
		vm.Annotations[v1alpha1.AnnotationRefused] = "a tenant's joke"
	})
	if is, _ := j.after(time.Second); is != "" {
		t.Errorf("a tenant's text stays: %q", is)
	}
	j.edit(func(vm *v1.VirtualMachine) {
		if vm.Annotations["example.org/foreign"] != "text" {
			t.Errorf("annotations of others are gone: %v", vm.Annotations)
		}
	})
}

// TestJudgePolicies: the violation of a policy that denies counts, of other policies it does not. A change of the policies has all VMs judged again.
func TestJudgePolicies(t *testing.T) {
	vm := unjudged()
	vm.Spec.Template.Spec.Domain.CPU = nil
	j := newJudge(t, vm)
	if j.after(0); len(j.judge.everyVM(t.Context())) != 1 {
		t.Error("the VM is not judged after a change of the policies")
	}
	if refused, _ := j.after(settles); refused != "" {
		t.Fatalf("without policies: %q", refused)
	}
	compiled := func(actions ...v1alpha1.GuestPolicyAction) []*policy.Policy {
		of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: "halted"}}
		of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: "object.metadata.name != 'a'", Message: "not this one"}}
		of.Spec.ValidationActions = actions
		made, mistakes := policy.Compile(of)
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		return []*policy.Policy{made}
	}
	j.policies = compiled(v1alpha1.PolicyWarn)
	if refused, _ := j.after(time.Second); refused != "" {
		t.Errorf("a policy that warns refuses: %q", refused)
	}
	j.policies = compiled(v1alpha1.PolicyDeny)
	if refused, _ := j.after(time.Second); !strings.Contains(refused, "not this one") {
		t.Errorf("a policy that denies: %q", refused)
	}
	j.policies = nil
	if refused, _ := j.after(time.Second); refused != "" {
		t.Errorf("the policy is gone: %q", refused)
	}
	j.judge.judgeAllAgain()
	j.judge.judgeAllAgain() // does not wait for anybody
	if len(j.judge.policiesChanged) != 1 {
		t.Error("a change of the policies causes no judgement")
	}
}

// TestJudgeExceptions: a VM is not marked while an exception permits its violation, and is judged again when the exception ends.
func TestJudgeExceptions(t *testing.T) {
	vm := unjudged()
	vm.Spec.Template.Spec.Domain.CPU = nil
	j := newJudge(t, vm)
	of := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: "named"}}
	of.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: "object.metadata.name == ''", Message: "not this one"}}
	of.Spec.Exceptions = &v1alpha1.GuestPolicyExceptions{Allowed: true, MaxDuration: &metav1.Duration{Duration: time.Hour},
		Approvers: []v1alpha1.GuestPolicyApprover{{Kind: "User", Name: "bob"}}}
	made, mistakes := policy.Compile(of)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	j.policies = []*policy.Policy{made}
	const lasts = 20 * time.Minute
	exception := &v1alpha1.GuestPolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "x", CreationTimestamp: metav1.NewTime(j.now)}}
	exception.Spec = v1alpha1.GuestPolicyExceptionSpec{Policies: []v1alpha1.GuestPolicyExceptionPolicy{{Name: "named"}}, RequestedBy: "ann",
		VirtualMachines: v1alpha1.GuestPolicyExceptionMatch{Names: []string{key.Name}}, Expires: metav1.NewTime(j.now.Add(lasts))}
	exception.Status.Approvals = []v1alpha1.GuestPolicyExceptionApproval{
		{Policy: "named", By: "bob", As: v1alpha1.GuestPolicyApprover{Kind: "User", Name: "bob"}}}
	j.judge.reviewer.Now = func() time.Time { return j.now }
	j.judge.reviewer.Exceptions = func(string) []*policy.Exception { return []*policy.Exception{policy.NewException(exception)} }
	j.after(0)
	if refused, again := j.after(settles); refused != "" || again != lasts-settles {
		t.Errorf("%q, again after %s, want the end of the exception", refused, again)
	}
	if refused, again := j.after(lasts - settles - time.Second); refused != "" || again != time.Second {
		t.Errorf("a second before the end: %q, again after %s", refused, again)
	}
	if refused, again := j.after(time.Second); !strings.Contains(refused, "not this one") || again != judgedAgain {
		t.Errorf("at the end: %q, again after %s", refused, again)
	}
}

// TestJudgeGone: a VM that is gone, or is going, is not counted.
func TestJudgeGone(t *testing.T) {
	j := newJudge(t, unjudged())
	j.after(0)
	j.after(settles)
	if err := j.Delete(t.Context(), unjudged()); err != nil {
		t.Fatal(err)
	}
	if _, again := j.after(time.Second); again != 0 || testutil.ToFloat64(refusedVMs) != 0 || len(j.judge.seen) != 0 {
		t.Errorf("again after %s, %v counted, %d remembered", again, testutil.ToFloat64(refusedVMs), len(j.judge.seen))
	}
}

// TestJudgedWhileEdited: an owner who edits a VM all the time does not keep it from being judged, and the metric counts the VM until it is judged again or
// gone.
func TestJudgedWhileEdited(t *testing.T) {
	j := newJudge(t, unjudged())
	j.after(0)
	refused := ""
	for range 3 {
		j.edit(func(*v1.VirtualMachine) {})
		refused, _ = j.after(settles / 2)
	}
	if refused == "" {
		t.Fatal("the VM is not judged")
	}
	j.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU = nil })
	j.after(0)
	if counted := testutil.ToFloat64(refusedVMs); counted != 1 {
		t.Errorf("%v counted before the next judgement", counted)
	}
	j.after(settles)
	if counted := testutil.ToFloat64(refusedVMs); counted != 0 {
		t.Errorf("%v counted after the VM was mended", counted)
	}
	j.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Sockets: 4, MaxSockets: 2} })
	j.after(0)
	j.after(settles)
	if counted := testutil.ToFloat64(refusedVMs); counted != 1 {
		t.Fatalf("%v counted", counted)
	}
	var vm v1.VirtualMachine
	if err := j.Get(t.Context(), key, &vm); err != nil {
		t.Fatal(err)
	}
	if err := j.Delete(t.Context(), &vm); err != nil {
		t.Fatal(err)
	}
	j.after(0)
	if counted := testutil.ToFloat64(refusedVMs); counted != 0 {
		t.Errorf("%v counted after the VM was deleted", counted)
	}
}
