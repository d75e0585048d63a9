package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// report writes the status of a VM, if it changed.
func (c *Controller) report(ctx context.Context, s *state) error {
	if s.trouble != nil {
		s.trouble.message = condition.Message(s.trouble.message)
	}
	now := s.vm.DeepCopy()
	status := &now.Status
	status.Created = s.vmi != nil
	status.Ready = s.vmi != nil && holds(s.vmi, v1.VirtualMachineInstanceReady)
	status.StartFailure = s.failures()
	status.PrintableStatus = s.printable()
	status.RunStrategy = s.strategy
	status.ObservedGeneration, status.DesiredGeneration = s.startedFrom(), s.vm.Generation
	status.Conditions = s.conditions()
	// What KubeVirt recorded stays until the VM is pinned: it is what the pin will come from.
	pins, recorded := pin.Read(s.vm), resolve.Recorded(s.vm)
	status.InstancetypeRef, status.PreferenceRef = nil, nil
	if m := s.vm.Spec.Instancetype; m != nil {
		status.InstancetypeRef = mirror(v1.InstancetypeStatusRef{Name: m.Name, Kind: m.Kind, InferFromVolume: m.InferFromVolume},
			cmp.Or(pins.Instancetype, recorded.Instancetype))
	}
	if m := s.vm.Spec.Preference; m != nil {
		status.PreferenceRef = mirror(v1.InstancetypeStatusRef{Name: m.Name, Kind: m.Kind, InferFromVolume: m.InferFromVolume},
			cmp.Or(pins.Preference, recorded.Preference))
	}
	if equality.Semantic.DeepEqual(s.vm.Status, now.Status) {
		return nil
	}
	if s.trouble != nil && !told(s.vm, s.trouble) {
		c.event(s, corev1.EventTypeWarning, s.trouble.reason, s.trouble.message)
	}
	return c.Client.Status().Patch(ctx, now, client.MergeFromWithOptions(s.vm, client.MergeFromWithOptimisticLock{}))
}

// startedFrom is the generation of the VM that its guest was created from, as KubeVirt's annotation on the VMI says; 0, which is left out of the
// status, without a guest, or for one of which it is not known. The owner of the VMI can write the annotation: no guest is of a later
// generation than the VM.
func (s *state) startedFrom() int64 {
	if s.vmi == nil {
		return 0
	}
	generation, err := strconv.ParseInt(s.vmi.Annotations[v1.VirtualMachineGenerationAnnotation], 10, 64)
	if err != nil || generation < 1 || generation > s.vm.Generation {
		return 0
	}
	return generation
}

// mirror tells dashboards and KubeVirt's tools which revision a VM is made from.
func mirror(ref v1.InstancetypeStatusRef, revision string) *v1.InstancetypeStatusRef {
	if revision != "" && revision != v1alpha1.PinNone {
		ref.ControllerRevisionRef = &v1.ControllerRevisionRef{Name: revision}
	}
	return &ref
}

// told tells whether the status says so already, so that a trouble that lasts is one event.
func told(vm *v1.VirtualMachine, t *trouble) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Type == v1.VirtualMachineFailure && c.Reason == t.reason && c.Message == t.message
	})
}

func (s *state) printable() v1.VirtualMachinePrintableStatus {
	switch {
	case s.vm.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusTerminating
	case s.vmi == nil && s.next() != start:
		return v1.VirtualMachineStatusStopped
	case (s.vmi == nil || s.vmi.IsFinal()) && s.pause() > 0:
		return v1.VirtualMachineStatusCrashLoopBackOff
	case s.vmi == nil:
		return v1.VirtualMachineStatusStarting
	case s.vmi.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusStopping
	case s.vmi.IsFinal():
		return v1.VirtualMachineStatusStopped
	case holds(s.vmi, v1.VirtualMachineInstancePaused):
		return v1.VirtualMachineStatusPaused
	case s.vmi.Status.Phase == v1.Running:
		return v1.VirtualMachineStatusRunning
	}
	return v1.VirtualMachineStatusStarting
}

func holds(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) bool {
	return slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// conditions of the VM: Ready always, Paused and Synchronized when its guest has them, Failure when something is wrong.
// Conditions that others put there stay.
func (s *state) conditions() []v1.VirtualMachineCondition {
	ready := v1.VirtualMachineCondition{Type: v1.VirtualMachineReady, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonVMINotExists,
		Message: "there is no virtual machine instance"}
	var found []v1.VirtualMachineCondition
	if s.vmi != nil {
		ready.Reason, ready.Message = v1alpha1.ReasonGuestNotRunning, "the guest is not running yet"
		for _, c := range s.vmi.Status.Conditions {
			copied := v1.VirtualMachineCondition{Type: v1.VirtualMachineConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: condition.Message(c.Message)}
			switch c.Type {
			case v1.VirtualMachineInstanceReady:
				ready = copied
			case v1.VirtualMachineInstancePaused, v1.VirtualMachineInstanceSynchronized:
				found = append(found, copied)
			}
		}
	}
	found = append([]v1.VirtualMachineCondition{ready}, found...)
	if s.trouble != nil {
		found = append(found, v1.VirtualMachineCondition{Type: v1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: s.trouble.reason,
			Message: s.trouble.message})
	}
	return s.dated(found)
}

// ours are the condition types that this controller sets and clears.
var ours = []v1.VirtualMachineConditionType{
	v1.VirtualMachineReady, v1.VirtualMachinePaused, v1.VirtualMachineFailure,
	v1.VirtualMachineConditionType(v1.VirtualMachineInstanceSynchronized),
}

// dated keeps the transition time of conditions whose status did not change, and those of others.
func (s *state) dated(found []v1.VirtualMachineCondition) []v1.VirtualMachineCondition {
	for i := range found {
		found[i].LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		for _, old := range s.vm.Status.Conditions {
			if old.Type == found[i].Type && old.Status == found[i].Status {
				found[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	for _, old := range s.vm.Status.Conditions {
		if !slices.Contains(ours, old.Type) {
			found = append(found, old)
		}
	}
	return found
}

// phases gives new VMIs, also those without a VM, their first phase: whoever looks for work finds it by that.
type phases struct {
	client client.Client
	now    func() time.Time
}

func (p *phases) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := p.client.Get(ctx, request.NamespacedName, vmi); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if vmi.Status.Phase != v1.VmPhaseUnset || vmi.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	pending := vmi.DeepCopy()
	pending.Status.Phase = v1.Pending
	pending.Status.PhaseTransitionTimestamps = append(pending.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: v1.Pending, PhaseTransitionTimestamp: metav1.NewTime(p.now())})
	err := p.client.Status().Patch(ctx, pending, client.MergeFromWithOptions(vmi, client.MergeFromWithOptimisticLock{}))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
