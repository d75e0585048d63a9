package guestcontroller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/policy"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// settles is the time from the first change of a VM to its judgement: several controllers write a new VM.
	settles = 5 * time.Second
	// judgedAgain is how often a refused VM is judged again. What mends it may be no change of the VM, such as a gate in KubeVirt's configuration.
	judgedAgain = 10 * time.Minute
	// judgements is the maximum of judgements a second: each is a request of the API server and some milliseconds of CPU. After a start all VMs are judged.
	judgements = 20
)

// refusedVMs is the number of VMs that admission would refuse.
var refusedVMs = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "kiln_virtualmachines_refused",
	Help: "VirtualMachines beside KubeVirt that admission would refuse, such as those that were written while the webhook did not answer. They have annotation " +
		v1alpha1.AnnotationRefused + ". From the leader; 0 on other replicas.",
})

// Metrics returns the metrics of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{refusedVMs} }

// judge finds the VMs that admission would refuse. While Kiln does not answer, the API server admits VMs without it. Each VM is judged again: no mark of
// admission is trusted, because a tenant could write it. The result is in annotation kilnvm.io/refused and not in a condition: virt-controller removes the
// conditions of a VM that its VMI does not have (KubeVirt: pkg/virt-controller/watch/vm, syncConditions, v1.9).
//
// It has one worker, which bounds the CPU that it takes.
type judge struct {
	client, live client.Client
	reviewer     review.Reviewer
	events       events.EventRecorder
	limit        *rate.Limiter
	now          func() time.Time
	// namespaces are the namespaces whose VMs are judged; nil for all.
	namespaces *enforcement.Namespaces
	// policiesChanged causes an event for each VM.
	policiesChanged chan event.GenericEvent

	policies []*policy.Policy
	seen     map[types.NamespacedName]*seenVM
	// refused is the number of VMs in seen that admission would refuse.
	refused int
}

// seenVM is a VM as it was seen last.
type seenVM struct {
	version version
	// since is the time of the first change that has not been judged.
	since time.Time
	// judged is the time of the last judgement of this version; zero if there was none. refused is the result of the last judgement of the VM.
	judged  time.Time
	refused string
	// until is when the first GuestPolicyException ends by which the VM is not refused; zero without an exception.
	until time.Time
}

// version is what a judgement depends on, as far as the cache has it.
type version struct {
	uid        types.UID
	generation int64
	metadata   [sha256.Size]byte
}

// registerController adds the controller to a manager.
func (j *judge) registerController(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []ctrl.Request { return j.everyVM(ctx) })
	vms := ctrl.NewControllerManagedBy(mgr).Named("kubevirtjudgement").
		For(&v1.VirtualMachine{}).
		WatchesRawSource(source.Channel(j.policiesChanged, all)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NewQueue: fairqueue.New})
	if j.namespaces != nil {
		j.namespaces.Watch(vms, j.client)
	}
	return vms.Complete(j)
}

// judgeAllAgain has all VMs judged again, because the policies have changed.
func (j *judge) judgeAllAgain() {
	select {
	case j.policiesChanged <- event.GenericEvent{Object: &v1.VirtualMachine{}}:
	default: // an earlier change has not been handled yet
	}
}

func (j *judge) everyVM(ctx context.Context) (requests []ctrl.Request) {
	var all v1.VirtualMachineList
	if err := j.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing VirtualMachines")
	}
	for i := range all.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// Reconcile judges one VM if it has not been judged as it is, and writes the result into its annotation.
func (j *judge) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vm, err := objects.GetOrNil(ctx, j.client, request.NamespacedName, &v1.VirtualMachine{})
	if err != nil {
		return ctrl.Result{}, err
	}
	if vm != nil && j.namespaces != nil {
		judged, err := j.namespaces.JudgesNamed(ctx, j.client, j.live, request.Namespace)
		if err != nil {
			return ctrl.Result{}, err
		}
		if !judged {
			vm = nil
		}
	}
	if vm == nil || vm.DeletionTimestamp != nil {
		if seen := j.seen[request.NamespacedName]; seen != nil {
			j.setRefused(seen, "")
			delete(j.seen, request.NamespacedName)
		}
		return ctrl.Result{}, nil
	}
	if err := j.notePolicies(); err != nil {
		return ctrl.Result{}, err
	}
	is, now := versionOf(vm), j.now()
	seen := j.seen[request.NamespacedName]
	switch {
	case seen == nil:
		seen = &seenVM{version: is, since: now}
		j.seen[request.NamespacedName] = seen
	case seen.version != is && seen.judged.IsZero(): // a VM that is edited all the time is judged, too
		seen.version = is
	case seen.version != is:
		seen.version, seen.since, seen.judged = is, now, time.Time{}
	}
	switch wait := settles - now.Sub(seen.since); {
	case !seen.judged.IsZero() && (seen.refused == "" || now.Sub(seen.judged) < judgedAgain) && (seen.until.IsZero() || now.Before(seen.until)):
	case wait > 0:
		return ctrl.Result{RequeueAfter: wait}, nil
	default:
		refused, until, err := j.judgeVM(ctx, vm)
		if apierrors.IsConflict(err) { // the event of the newer version follows
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		seen.judged, seen.until = now, until
		j.setRefused(seen, refused)
	}
	if err := j.reportRefusal(ctx, vm, seen.refused); err != nil {
		return ctrl.Result{}, err
	}
	var again time.Duration // never
	if seen.refused != "" {
		again = max(time.Second, judgedAgain-now.Sub(seen.judged))
	}
	if left := seen.until.Sub(now); !seen.until.IsZero() && (again == 0 || left < again) {
		again = max(time.Second, left)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// notePolicies forgets all judgements if the policies have changed.
func (j *judge) notePolicies() error {
	policies, err := j.reviewer.Policies()
	if err != nil || slices.Equal(policies, j.policies) {
		return err
	}
	j.policies = policies
	for _, seen := range j.seen {
		seen.judged = time.Time{}
	}
	return nil
}

// setRefused sets the result of a judgement, and the metric.
func (j *judge) setRefused(seen *seenVM, refused string) {
	if seen.refused != "" {
		j.refused--
	}
	if seen.refused = refused; refused != "" {
		j.refused++
	}
	refusedVMs.Set(float64(j.refused))
}

// versionOf returns the version of a VM of the cache. Annotations of others are not in the cache, or say nothing to Kiln's rules.
func versionOf(vm *v1.VirtualMachine) version {
	own := map[string]string{}
	for key, value := range vm.Annotations {
		if strings.HasPrefix(key, v1alpha1.Prefix) && key != v1alpha1.AnnotationRefused && key != v1alpha1.AnnotationExcepted {
			own[key] = value
		}
	}
	text, err := json.Marshal([]map[string]string{vm.Labels, own})
	if err != nil {
		panic(err) // maps of strings always marshal
	}
	return version{vm.UID, vm.Generation, sha256.Sum256(text)}
}

// judgeVM returns why admission would refuse a VM; empty if it would not. until is when the first exception ends by which admission would not refuse it.
func (j *judge) judgeVM(ctx context.Context, cached *v1.VirtualMachine) (refused string, until time.Time, err error) {
	if err := j.limit.Wait(ctx); err != nil {
		return "", until, err
	}
	vm, err := objects.GetOrNil(ctx, j.live, client.ObjectKeyFromObject(cached), &v1.VirtualMachine{})
	if err != nil {
		return "", until, err
	}
	if vm == nil || versionOf(vm) != versionOf(cached) {
		return "", until, apierrors.NewConflict(v1.Resource("virtualmachines"), cached.Name, errors.New("it has changed since it was cached"))
	}
	reviewed, err := j.reviewer.ReviewVM(ctx, vm, nil, review.UnknownAsker()) // a policy that reads the name of the account fails, which does not count
	var refusal *resolve.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return "", until, err
	}
	mistakes := slices.Clone(reviewed.Errors)
	if refusal != nil {
		mistakes = append(mistakes, refusal.Errors...)
	}
	return refusalText(append(mistakes, errorsOfDenials(reviewed.Policies)...)), firstEnd(reviewed.Policies), nil
}

// firstEnd returns when the first exception of a result ends; zero if it has none.
func firstEnd(result policy.Result) (first time.Time) {
	for _, violation := range result.Violations {
		if until := violation.Until; until != nil && (first.IsZero() || until.Time.Before(first)) {
			first = until.Time
		}
	}
	return first
}

// errorsOfDenials returns the errors of policies that deny. A review of a stored VM has none.
func errorsOfDenials(result policy.Result) (errs field.ErrorList) {
	for _, violation := range result.Violations {
		if violation.Exception == "" && slices.Contains(violation.Actions, v1alpha1.PolicyDeny) {
			errs = append(errs, violation.Err)
		}
	}
	return errs
}

// refusalText returns the value of the annotation, on one line and as short as the note of an event.
func refusalText(mistakes field.ErrorList) string {
	if len(mistakes) == 0 {
		return ""
	}
	return condition.Note(condition.OneLine(condition.Mistakes(mistakes)))
}

// reportRefusal writes the annotation if it differs, and an event if the VM has become one that is refused.
func (j *judge) reportRefusal(ctx context.Context, vm *v1.VirtualMachine, refused string) error {
	if vm.Annotations[v1alpha1.AnnotationRefused] == refused {
		return nil
	}
	patch, err := annotationPatch(vm, refused)
	if err == nil {
		err = j.client.Patch(ctx, vm.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the event of the other write follows
		return nil
	}
	if err == nil && refused != "" {
		j.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonWouldBeRefused, "Reconcile", "%s",
			condition.Note("admission would refuse this VM, which was written without its judgement or before a policy: "+refused))
	}
	return err
}

// annotationPatch returns a merge patch of the annotation alone: a difference of two VMs of the cache, which lacks annotations of others, would remove them if
// no annotation is left.
func annotationPatch(vm *v1.VirtualMachine, refused string) ([]byte, error) {
	value := &refused
	if refused == "" {
		value = nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": vm.ResourceVersion, "annotations": map[string]*string{v1alpha1.AnnotationRefused: value},
	}})
}
