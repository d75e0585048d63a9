// Package observer keeps the conditions of GuestHardware about the recorded CPU, and counts guests by CPUOffered. A guest that runs has this condition, too:
// administrators learn that a node lost a feature before the guest is to start again.
package observer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/nodecpu/fleet"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller judges all guests together, in rounds. A round reads only the cache, and writes the conditions that have changed.
type Controller struct {
	// Client writes statuses.
	Client client.Client
	// Cached reads nodes, GuestHardware, VMs and VMIs from the cache.
	Cached client.Reader
	// Configuration returns the configuration of the cluster. It decides which labels tell the CPUs that nodes offer.
	Configuration func() config.Cluster
	Now           func() time.Time

	// rested is when the next round may begin.
	rested time.Time
}

const (
	// pause is the time from the first change to the round that notices it.
	pause = 10 * time.Second
	// share bounds the time that rounds take: the rest after a round is share times its time.
	share = 9
	// mostWrites bounds the writes of a round. The next round writes the others.
	mostWrites = 500
)

// Register adds the controller to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	round := reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}
	later := handler.Funcs{ // the queue keeps one request, however many events there are
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q requests) { q.AddAfter(round, pause) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q requests) { q.AddAfter(round, pause) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q requests) { q.AddAfter(round, pause) },
	}
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("guestcpu").
		Watches(&corev1.Node{}, later, builder.WithPredicates(predicate.Funcs{UpdateFunc: changesNode})).
		Watches(&v1alpha1.GuestHardware{}, later, builder.WithPredicates(predicate.Funcs{UpdateFunc: changesCPU})).
		Watches(&v1.VirtualMachine{}, later, spec).Watches(&v1.VirtualMachineInstance{}, later, spec).Complete(c)
}

// changesNode reports whether an update changes which guests a node is for.
func changesNode(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return !equality.Semantic.DeepEqual(was.Labels, is.Labels) || !equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
}

// changesCPU reports whether an update changes the recorded CPU. An update of the status does not.
func changesCPU(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*v1alpha1.GuestHardware), e.ObjectNew.(*v1alpha1.GuestHardware)
	return !equality.Semantic.DeepEqual(cpuOf(was), cpuOf(is))
}

// cpuOf returns the recorded CPU; nil without one, for a CPU that the next boot records anew, and for a CPU that no boot can have written.
func cpuOf(hardware *v1alpha1.GuestHardware) *record.CPU {
	if hardware.Spec.Hardware == nil {
		return nil
	}
	cpu := hardware.Spec.Hardware.CPU
	if cpu == nil || cpu.Requested == v1alpha1.CPURequestedNone || record.CheckCPU(cpu) != nil {
		return nil
	}
	return cpu
}

// Reconcile makes a round. One request is reconciled at a time.
func (c *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	began := c.Now()
	if wait := c.rested.Sub(began); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	complete, err := c.judgeAll(ctx)
	c.rested = began.Add((share + 1) * c.Now().Sub(began))
	if err != nil || complete {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: pause}, nil
}

// judgeAll judges all guests, and sets the metric. It returns false if conditions are left to be written.
func (c *Controller) judgeAll(ctx context.Context) (complete bool, err error) {
	var nodes corev1.NodeList
	var hardwares v1alpha1.GuestHardwareList
	if err := errors.Join(c.list(ctx, &nodes), c.list(ctx, &hardwares)); err != nil {
		return false, err
	}
	pods, err := c.readPods(ctx)
	if err != nil {
		return false, err
	}
	now, left := fleet.New(nodecpu.SourceOf(c.Configuration()), nodes.Items), mostWrites
	counts := map[fleet.Outlook]int{}
	var errs []error
	conflict := false
	for i := range hardwares.Items {
		hardware := &hardwares.Items[i]
		judged := fleet.Summary{Outlook: unrecorded}
		if cpu := cpuOf(hardware); cpu != nil {
			pod := pods[client.ObjectKeyFromObject(hardware)]
			if pod == nil {
				pod = &corev1.Pod{}
			}
			if judged, err = now.Summarize(cpu, pod); err != nil {
				return false, err
			}
		}
		counts[judged.Outlook]++
		changed := withConditions(hardware, judged)
		if changed == nil {
			continue
		}
		if left--; left < 0 {
			continue // it is counted all the same
		}
		switch err := condition.Write(ctx, c.Client, hardware, changed); {
		case apierrors.IsConflict(err): // a launcher has written meanwhile
			conflict = true
		default:
			errs = append(errs, err)
		}
	}
	for _, outlook := range outlooks {
		guestCPUs.WithLabelValues(string(outlook)).Set(float64(counts[outlook]))
	}
	return left >= 0 && !conflict, errors.Join(errs...)
}

// list reads all objects of a kind from the cache, without copying them: they must not be changed.
func (c *Controller) list(ctx context.Context, into client.ObjectList) error {
	if err := c.Cached.List(ctx, into, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}

// readPods returns what selects the nodes of each guest: the VMI, which has the selectors of the instancetype, too, and otherwise the template of the VM.
func (c *Controller) readPods(ctx context.Context) (map[types.NamespacedName]*corev1.Pod, error) {
	var vms v1.VirtualMachineList
	var vmis v1.VirtualMachineInstanceList
	if err := errors.Join(c.list(ctx, &vms), c.list(ctx, &vmis)); err != nil {
		return nil, err
	}
	pods := make(map[types.NamespacedName]*corev1.Pod, len(vms.Items))
	for i := range vms.Items {
		vm := &vms.Items[i]
		if vm.Spec.Template == nil {
			continue
		}
		spec := vm.Spec.Template.Spec
		spec.Architecture = cmp.Or(spec.Architecture, vm.Annotations[v1alpha1.AnnotationArchitecture])
		pods[client.ObjectKeyFromObject(vm)] = fleet.PodOf(&spec)
	}
	for i := range vmis.Items {
		pods[client.ObjectKeyFromObject(&vmis.Items[i])] = fleet.PodOf(&vmis.Items[i].Spec)
	}
	return pods, nil
}

// withConditions returns a copy of a GuestHardware with the conditions of its recorded CPU; nil if nothing changes.
func withConditions(hardware *v1alpha1.GuestHardware, judged fleet.Summary) *v1alpha1.GuestHardware {
	conditions := slices.Clone(hardware.Status.Conditions) // most rounds change nothing, and need no copy of the record
	offered := setCondition(&conditions, v1alpha1.ConditionCPUOffered, describeOffer(judged))
	seen := setCondition(&conditions, v1alpha1.ConditionCPUFirstSeen, describeFirstSeen(cpuOf(hardware)))
	if !offered && !seen {
		return nil
	}
	changed := hardware.DeepCopy()
	changed.Status.Conditions = conditions
	return changed
}

// setCondition sets a condition, or removes it if next is nil. It reports whether this changes the list.
func setCondition(conditions *[]metav1.Condition, kind string, next *metav1.Condition) bool {
	if next == nil {
		return meta.RemoveStatusCondition(conditions, kind)
	}
	next.Type = kind
	return meta.SetStatusCondition(conditions, *next)
}

// describeOffer returns condition CPUOffered; nil if nothing is known. It has no observedGeneration: the generation changes at each boot, and would be a reason
// to write.
func describeOffer(judged fleet.Summary) *metav1.Condition {
	switch judged.Outlook {
	case fleet.Everywhere:
		return &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEveryNodeOffers}
	case fleet.Somewhere:
		return &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSomeNodesLack, Message: condition.Message(judged.Text)}
	case fleet.Nowhere:
		return &metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoNodeOffers,
			Message: condition.Message(judged.Text + ". With 'kubectl kiln repin --cpu' the next boot records the CPU of its node")}
	default:
		return nil
	}
}

// describeFirstSeen returns condition CPUFirstSeen; nil for a CPU that the first boot recorded. A guest with host-passthrough has none: it keeps no CPU.
func describeFirstSeen(cpu *record.CPU) *metav1.Condition {
	if cpu == nil || !cpu.FirstSeen || cpu.Requested != v1.CPUModeHostModel {
		return nil
	}
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBootedBefore, Message: fmt.Sprintf("the guest had booted before its CPU was "+
		"recorded. The CPU that was seen first is '%s' with %d features. Whether earlier boots had it cannot be known. Later boots have it: nothing has to be "+
		"done. With 'kubectl kiln repin --cpu' the next boot records the CPU of its node", cpu.Model, len(cpu.Features))}
}
