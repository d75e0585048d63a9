package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/resolve"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// writeStatus writes the VM's status if it has changed, and then the events about what is new in it: the Failure condition, and the end or refusal of the
// guest.
func (c *Controller) writeStatus(ctx context.Context, s *state) error {
	if s.failure != nil {
		s.failure.message = condition.Message(s.failure.message)
	}
	reported := s.vm.DeepCopy()
	s.fillStatus(&reported.Status)
	if equality.Semantic.DeepEqual(s.vm.Status, reported.Status) {
		return nil
	}
	unreported := s.failure != nil && !alreadyReported(s.vm, s.failure)
	newEvents := s.newGuestEvents(reported)
	if err := objects.PatchStatus(ctx, c.Client, reported, s.vm); err != nil {
		return err
	}
	c.ownWrites.Note(reported, s.now)
	// Events follow the write: a conflict repeats the reconcile, and would repeat them.
	if unreported {
		newEvents = append(newEvents, guestEvent{condition.Cause{Reason: s.failure.reason, Message: s.failure.message}, corev1.EventTypeWarning})
	}
	for _, event := range newEvents {
		c.recordEvent(s, event.eventType, event.Reason, event.Message)
		if event.eventType == corev1.EventTypeWarning && !statusHadReason(s.vm, event.Reason) {
			condition.Log(ctx, s.vm, "vm", event.Cause)
		}
	}
	return nil
}

// statusHadReason reports whether the status of a VM already contained a reason. The message of one reason, such as the scheduler's, may change all the time.
func statusHadReason(vm *v1.VirtualMachine, reason string) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Reason == reason && (c.Status == corev1.ConditionFalse || c.Type == v1.VirtualMachineFailure)
	})
}

// guestEvent is an event about the guest of a VM.
type guestEvent struct {
	condition.Cause
	eventType string
}

// liveGuestStatuses are the printable statuses of VMs whose VMIs have no final phase and are not being stopped.
var liveGuestStatuses = []v1.VirtualMachinePrintableStatus{
	v1.VirtualMachineStatusStarting, v1.VirtualMachineStatusRunning, v1.VirtualMachineStatusPaused,
}

// newGuestEvents returns events for what the status of the VMI says and the status of the VM did not say yet: that the guest cannot start, or has ended. The
// events of the VMI disappear with it, while the events of the VM stay.
func (s *state) newGuestEvents(reported *v1.VirtualMachine) (all []guestEvent) {
	if s.vmi == nil {
		return nil
	}
	isNew := func(of v1.VirtualMachineConditionType) *condition.Cause {
		now := conditionsOfType(reported, of)
		if len(now) == 0 || now[0].Status != corev1.ConditionFalse {
			return nil
		}
		for _, was := range conditionsOfType(s.vm, of) {
			if was.Status == now[0].Status && was.Reason == now[0].Reason && was.Message == now[0].Message {
				return nil
			}
		}
		return &condition.Cause{Reason: now[0].Reason, Message: now[0].Message}
	}
	if s.vmi.IsFinal() {
		end := isNew(v1.VirtualMachineReady)
		if end == nil && slices.Contains(liveGuestStatuses, s.vm.Status.PrintableStatus) { // Ready already reported the end before the VMI had its final phase
			for _, ready := range conditionsOfType(reported, v1.VirtualMachineReady) {
				end = &condition.Cause{Reason: ready.Reason, Message: ready.Message}
			}
		}
		if end != nil {
			all = append(all, guestEvent{*end, condition.EndEvent(s.vmi.Status.Phase, *end)})
		}
	} else if refusal := isNew(v1.VirtualMachineConditionType(v1.VirtualMachineInstanceSynchronized)); refusal != nil {
		all = append(all, guestEvent{*refusal, corev1.EventTypeWarning})
	}
	return all
}

// fillStatus sets the status fields that this controller owns. The references to instancetype and preference take their revision from the pins. Until a VM is
// pinned they keep the revision that KubeVirt recorded, because the pin will be derived from it.
func (s *state) fillStatus(status *v1.VirtualMachineStatus) {
	status.Created = s.vmi != nil
	status.Ready = s.vmi != nil && condition.IsTrue(s.vmi, v1.VirtualMachineInstanceReady)
	status.StartFailure = s.startFailure
	status.PrintableStatus = s.printableStatus()
	status.StateChangeRequests = s.nextRequests()
	if !s.startOutstanding() {
		status.RunStrategy = s.strategy
	}
	// Flux and Helm wait until both are the generation of the object. An edit that waits for a restart is seen, too: condition RestartRequired says that it waits.
	status.ObservedGeneration, status.DesiredGeneration = s.vm.Generation, s.vm.Generation
	status.Conditions = s.nextConditions()
	status.InstancetypeRef, status.PreferenceRef = s.revisionReferences()
}

// revisionReferences returns the status references to instancetype and preference of a VM; nil if the VM has no such matcher.
func (s *state) revisionReferences() (instancetype, preference *v1.InstancetypeStatusRef) {
	recorded := resolve.StatusPins(s.vm)
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

// vmiGeneration returns the generation of the VM that its VMI was made from, by KubeVirt's annotation on the VMI; 0 without a VMI or if it is unknown. The
// VMI's owner can write the annotation, so a generation that the VM has not reached counts as unknown.
func (s *state) vmiGeneration() int64 {
	if s.vmi == nil {
		return 0
	}
	generation, err := strconv.ParseInt(s.vmi.Annotations[v1.VirtualMachineGenerationAnnotation], 10, 64)
	if err != nil || generation < 1 || generation > s.vm.Generation {
		return 0
	}
	return generation
}

// withRevision adds a revision to a status reference, where dashboards and KubeVirt's tools look for it. PinNone is no revision.
func withRevision(ref v1.InstancetypeStatusRef, revision string) *v1.InstancetypeStatusRef {
	if revision != "" && revision != v1alpha1.PinNone {
		ref.ControllerRevisionRef = &v1.ControllerRevisionRef{Name: revision}
	}
	return &ref
}

// alreadyReported reports whether the Failure condition already has this reason and message. A failure that lasts is reported in only one event.
func alreadyReported(vm *v1.VirtualMachine, f *failure) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Type == v1.VirtualMachineFailure && c.Reason == f.reason && c.Message == f.message
	})
}

// printableStatus returns the column STATUS of kubectl get, in KubeVirt's words. The order matters: a VM in a back-off has no VMI either.
func (s *state) printableStatus() v1.VirtualMachinePrintableStatus {
	switch {
	case s.vm.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusTerminating
	case s.vmi == nil && s.awaitedVolume != nil && s.awaitedVolume.Reason == v1alpha1.ReasonFailedDataVolumeImport:
		return v1.VirtualMachineStatusDataVolumeError
	case s.vmi == nil && s.awaitedVolume != nil && s.awaitedVolume.Reason == v1alpha1.ReasonProvisioning: // of a halted VM, too, as KubeVirt
		return v1.VirtualMachineStatusProvisioning
	case s.vmi == nil && s.nextAction() != actionStart:
		return v1.VirtualMachineStatusStopped
	case (s.vmi == nil || s.vmi.IsFinal()) && s.remainingBackoff() > 0:
		return v1.VirtualMachineStatusCrashLoopBackOff
	case s.vmi == nil && s.failure != nil: // as KubeVirt reports a VM whose VMI cannot be created
		return v1.VirtualMachineStatusStopped
	case s.vmi == nil:
		return v1.VirtualMachineStatusStarting
	case s.vmi.DeletionTimestamp != nil:
		return v1.VirtualMachineStatusStopping
	case s.vmi.IsFinal():
		return v1.VirtualMachineStatusStopped
	case condition.IsTrue(s.vmi, v1.VirtualMachineInstancePaused):
		return v1.VirtualMachineStatusPaused
	case s.vmi.Status.Phase == v1.Running:
		return v1.VirtualMachineStatusRunning
	}
	if c := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); c != nil && c.Status == corev1.ConditionFalse && hinderedStatuses[c.Reason] != "" {
		return hinderedStatuses[c.Reason]
	}
	return v1.VirtualMachineStatusStarting
}

// hinderedStatuses are the printable statuses of VMs whose guests do not start, by the reason of condition Synchronized of their VMIs. A reason for which
// KubeVirt has no status has the nearest one: no pod can be created, or the start is retried at intervals.
var hinderedStatuses = map[string]v1.VirtualMachinePrintableStatus{
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
