package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/resolve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// report writes the VM's status if it has changed, and an event if the Failure condition is new.
func (c *Controller) report(ctx context.Context, s *state) error {
	if s.failure != nil {
		s.failure.message = condition.Message(s.failure.message)
	}
	reported := s.vm.DeepCopy()
	s.fillStatus(&reported.Status)
	if equality.Semantic.DeepEqual(s.vm.Status, reported.Status) {
		return nil
	}
	unreported := s.failure != nil && !alreadyReported(s.vm, s.failure)
	befell := s.newsOfGuest(reported)
	if err := c.Client.Status().Patch(ctx, reported, client.MergeFromWithOptions(s.vm, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	c.written.Note(reported, s.now)
	// After the write: a conflict would repeat the events.
	if unreported {
		befell = append(befell, news{condition.Cause{Reason: s.failure.reason, Message: s.failure.message}, corev1.EventTypeWarning})
	}
	for _, news := range befell {
		c.event(s, news.kind, news.Reason, news.Message)
		if news.kind == corev1.EventTypeWarning && !gaveReason(s.vm, news.Reason) {
			condition.Log(ctx, s.vm, "vm", news.Cause)
		}
	}
	return nil
}

// gaveReason reports whether the status of a VM gave a reason already. Messages of one reason may change all the time, such as that of the scheduler.
func gaveReason(vm *v1.VirtualMachine, reason string) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Reason == reason && (c.Status == corev1.ConditionFalse || c.Type == v1.VirtualMachineFailure)
	})
}

// news is what befell the guest of a VM, as an event of this type.
type news struct {
	condition.Cause
	kind string
}

// ofLiveGuests are the words for VMs whose VMIs have no final phase and are not being stopped.
var ofLiveGuests = []v1.VirtualMachinePrintableStatus{
	v1.VirtualMachineStatusStarting, v1.VirtualMachineStatusRunning, v1.VirtualMachineStatusPaused,
}

// newsOfGuest returns what the status of the VMI says that the status of the VM did not: that the guest cannot start, or has ended. Events of the VMI go with
// it; those of the VM stay.
func (s *state) newsOfGuest(reported *v1.VirtualMachine) (all []news) {
	if s.vmi == nil {
		return nil
	}
	isNew := func(of v1.VirtualMachineConditionType) *condition.Cause {
		now := known(reported, of)
		if len(now) == 0 || now[0].Status != corev1.ConditionFalse {
			return nil
		}
		for _, was := range known(s.vm, of) {
			if was.Status == now[0].Status && was.Reason == now[0].Reason && was.Message == now[0].Message {
				return nil
			}
		}
		return &condition.Cause{Reason: now[0].Reason, Message: now[0].Message}
	}
	if s.vmi.IsFinal() {
		end := isNew(v1.VirtualMachineReady)
		if end == nil && slices.Contains(ofLiveGuests, s.vm.Status.PrintableStatus) { // the guest has ended before its VMI has its final phase
			for _, ready := range known(reported, v1.VirtualMachineReady) {
				end = &condition.Cause{Reason: ready.Reason, Message: ready.Message}
			}
		}
		if end != nil {
			all = append(all, news{*end, condition.EndEvent(s.vmi.Status.Phase, *end)})
		}
	} else if refusal := isNew(v1.VirtualMachineConditionType(v1.VirtualMachineInstanceSynchronized)); refusal != nil {
		all = append(all, news{*refusal, corev1.EventTypeWarning})
	}
	return all
}

// fillStatus sets the fields that this controller owns. The instancetype and preference references take their revision from the pins. Until a
// VM is pinned they keep the revision that KubeVirt recorded: the pin will be derived from it.
func (s *state) fillStatus(status *v1.VirtualMachineStatus) {
	status.Created = s.vmi != nil
	status.Ready = s.vmi != nil && hasCondition(s.vmi, v1.VirtualMachineInstanceReady)
	status.StartFailure = s.startFailure
	status.PrintableStatus = s.printableStatus()
	status.StateChangeRequests = s.nextRequests()
	if !s.startsLater() {
		status.RunStrategy = s.strategy
	}
	status.ObservedGeneration, status.DesiredGeneration = s.observedGeneration(), s.vm.Generation
	status.Conditions = s.conditions()
	status.InstancetypeRef, status.PreferenceRef = s.references()
}

// references returns the status references to instancetype and preference of a VM; nil for one that it does not name.
func (s *state) references() (instancetype, preference *v1.InstancetypeStatusRef) {
	recorded := resolve.Recorded(s.vm)
	if m := s.vm.Spec.Instancetype; m != nil {
		instancetype = withRevision(v1.InstancetypeStatusRef{Name: m.Name, Kind: m.Kind, InferFromVolume: m.InferFromVolume},
			cmp.Or(s.pins.Instancetype, recorded.Instancetype))
	}
	if m := s.vm.Spec.Preference; m != nil {
		preference = withRevision(v1.InstancetypeStatusRef{Name: m.Name, Kind: m.Kind, InferFromVolume: m.InferFromVolume},
			cmp.Or(s.pins.Preference, recorded.Preference))
	}
	return instancetype, preference
}

// observedGeneration returns the generation of the VM that its VMI follows: the current one if nothing of the VM waits for a restart, else that from which the
// VMI was made. It is 0 (not in the status) without a VMI or if it is not known. Tools that follow kstatus wait until it is the current one.
func (s *state) observedGeneration() int64 {
	made := s.madeFrom()
	if made > 0 && (!s.live() || !s.pendingUnknown && s.pending == (pendingEdit{})) {
		return s.vm.Generation
	}
	return made
}

// madeFrom returns the generation of the VM from which its VMI was made, by KubeVirt's annotation on the VMI; 0 without a VMI or if it is not known. The VMI's
// owner can write the annotation, so a generation that the VM has not reached counts as unknown.
func (s *state) madeFrom() int64 {
	if s.vmi == nil {
		return 0
	}
	generation, err := strconv.ParseInt(s.vmi.Annotations[v1.VirtualMachineGenerationAnnotation], 10, 64)
	if err != nil || generation < 1 || generation > s.vm.Generation {
		return 0
	}
	return generation
}

// withRevision names a revision in a status reference, where dashboards and KubeVirt's tools look for it. PinNone is no revision.
func withRevision(ref v1.InstancetypeStatusRef, revision string) *v1.InstancetypeStatusRef {
	if revision != "" && revision != v1alpha1.PinNone {
		ref.ControllerRevisionRef = &v1.ControllerRevisionRef{Name: revision}
	}
	return &ref
}

// alreadyReported reports whether the Failure condition already has this reason and message. A failure that lasts is one event.
func alreadyReported(vm *v1.VirtualMachine, f *failure) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Type == v1.VirtualMachineFailure && c.Reason == f.reason && c.Message == f.message
	})
}

// printableStatus returns the column STATUS of kubectl get, in KubeVirt's words. The order counts: a VM in backoff has no VMI either.
func (s *state) printableStatus() v1.VirtualMachinePrintableStatus {
	switch {
	case s.vm.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusTerminating
	case s.vmi == nil && s.nextAction() != start:
		return v1.VirtualMachineStatusStopped
	case (s.vmi == nil || s.vmi.IsFinal()) && s.backoff() > 0:
		return v1.VirtualMachineStatusCrashLoopBackOff
	case s.vmi == nil && s.failure != nil: // KubeVirt's word too, for a VM whose VMI cannot be created
		return v1.VirtualMachineStatusStopped
	case s.vmi == nil:
		return v1.VirtualMachineStatusStarting
	case s.vmi.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusStopping
	case s.vmi.IsFinal():
		return v1.VirtualMachineStatusStopped
	case hasCondition(s.vmi, v1.VirtualMachineInstancePaused):
		return v1.VirtualMachineStatusPaused
	case s.vmi.Status.Phase == v1.Running:
		return v1.VirtualMachineStatusRunning
	}
	if c := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); c != nil && c.Status == corev1.ConditionFalse && hindered[c.Reason] != "" {
		return hindered[c.Reason]
	}
	return v1.VirtualMachineStatusStarting
}

// hindered are KubeVirt's words for VMs whose guests do not start, by the reason of condition Synchronized of their VMIs. What KubeVirt has no word for has the
// nearest: no pod can be made, or the guest is tried again at intervals.
var hindered = map[string]v1.VirtualMachinePrintableStatus{
	v1alpha1.ReasonFailedPvcNotFound:          v1.VirtualMachineStatusPvcNotFound,
	v1alpha1.ReasonFailedDataVolumeImport:     v1.VirtualMachineStatusDataVolumeError,
	v1alpha1.ReasonProvisioning:               v1.VirtualMachineStatusProvisioning,
	v1alpha1.ReasonWaitingForVolumeBinding:    v1.VirtualMachineStatusWaitingForVolumeBinding,
	v1alpha1.ReasonUnschedulable:              v1.VirtualMachineStatusUnschedulable,
	v1alpha1.ReasonSchedulingGated:            v1.VirtualMachineStatusUnschedulable,
	v1alpha1.ReasonNotPlaceable:               v1.VirtualMachineStatusUnschedulable,
	v1alpha1.ReasonFailedCreate:               v1.VirtualMachineStatusUnschedulable,
	v1alpha1.ReasonErrImagePull:               v1.VirtualMachineStatusErrImagePull,
	v1alpha1.ReasonInvalidImageName:           v1.VirtualMachineStatusErrImagePull,
	v1alpha1.ReasonErrImageNeverPull:          v1.VirtualMachineStatusErrImagePull,
	v1alpha1.ReasonImagePullBackOff:           v1.VirtualMachineStatusImagePullBackOff,
	v1alpha1.ReasonCreateContainerConfigError: v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonCreateContainerError:       v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonNotBindable:                v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonNotExplicit:                v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonNotRenderable:              v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonInvalidFacts:               v1.VirtualMachineStatusCrashLoopBackOff,
	v1alpha1.ReasonStartFailed:                v1.VirtualMachineStatusCrashLoopBackOff,
}
