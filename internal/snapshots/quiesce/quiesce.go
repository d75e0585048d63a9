// Package quiesce freezes the file systems of a running guest before its volumes are snapshotted, and thaws them afterwards.
//
// The condition Quiesced of a snapshot is written before the guest is asked, so that the next process knows what to thaw if this process dies. A
// snapshot does not fail if its guest does not freeze: the condition and the indications say so.
package quiesce

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Quiescer freezes and thaws the guests of snapshots.
type Quiescer struct {
	*operation.Cluster
	// Agent is nil if Kiln's API server of subresources is not installed.
	Agent    Agent
	Requests *Requests
}

// maxFreeze is the longest time that a guest is frozen. It is KubeVirt's default, which equals the default failureDeadline.
const maxFreeze = api.DefaultFailureDeadline

// Actions on guests.
const (
	actionFreeze = "freeze"
	actionThaw   = "unfreeze"
)

// freezeTimeout returns the freeze limit for a request that is sent at the given time: never beyond the snapshot's deadline.
func freezeTimeout(snapshot *api.VirtualMachineSnapshot, at time.Time) time.Duration {
	limit := maxFreeze
	if deadline := operation.FailureDeadline(snapshot); deadline > 0 {
		limit = min(limit, deadline-operation.TimeSince(snapshot.Status.Conditions, api.ConditionReady, at))
	}
	return max(limit, time.Second)
}

// hasVolumeSnapshots reports whether a content contains volumes that are snapshotted.
func hasVolumeSnapshots(content *api.VirtualMachineSnapshotContent) bool {
	for i := range content.Spec.VolumeBackups {
		if content.Spec.VolumeBackups[i].VolumeSnapshotName != nil {
			return true
		}
	}
	return false
}

func guestOf(snapshot *api.VirtualMachineSnapshot) types.NamespacedName {
	return types.NamespacedName{Namespace: snapshot.Namespace, Name: snapshot.Spec.Source.Name}
}

func requestFor(snapshot *api.VirtualMachineSnapshot, action string) request {
	return request{guestOf(snapshot), snapshot.UID, action}
}

// Freeze freezes the guest if it runs and has volumes to be snapshotted. done reports that the guest is frozen, or that the volumes are snapshotted
// without a freeze.
func (q *Quiescer) Freeze(
	ctx context.Context, snapshot *api.VirtualMachineSnapshot, content *api.VirtualMachineSnapshotContent,
) (done bool, err error) {
	quiesced := operation.FindCondition(snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	wasRunning := content.Annotations[v1alpha1.AnnotationSnapshotState] == v1alpha1.SnapshotRunning
	volumesTaken := content.Status != nil && content.Status.CreationTime != nil
	if quiesced != nil && quiesced.Reason != v1alpha1.ReasonFreezing || volumesTaken || !wasRunning || !hasVolumeSnapshots(content) {
		return true, nil
	}
	vmi, err := objects.GetOrNil(ctx, q.Live, guestOf(snapshot), &v1.VirtualMachineInstance{})
	if err != nil {
		return false, err
	}
	if vmi != nil && condition.IsTrue(vmi, v1.VirtualMachineInstancePaused) {
		return true, nil
	}
	if reason := q.agentUnavailableReason(vmi); reason != "" {
		return true, q.reportUnquiesced(ctx, snapshot, v1alpha1.ReasonNoGuestAgent, reason)
	}
	if quiesced == nil {
		freezing := operation.ConditionText{Status: corev1.ConditionUnknown, Reason: v1alpha1.ReasonFreezing,
			Message: "the guest agent is asked to freeze the file systems"}
		if err := q.setQuiesced(ctx, snapshot, freezing); err != nil {
			return false, err
		}
		quiesced = operation.FindCondition(snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	}
	limit := freezeTimeout(snapshot, quiesced.LastTransitionTime.Time)
	answered, err := q.Requests.sendRequest(requestFor(snapshot, actionFreeze), q.freezeCall(guestOf(snapshot), limit))
	switch {
	case !answered:
		return false, nil
	case err != nil:
		write := q.reportUnquiesced(ctx, snapshot, v1alpha1.ReasonFreezeFailed, err.Error())
		return true, q.WarnAfterWrite(write, snapshot, v1alpha1.ReasonFreezeFailed, "the guest was not frozen: "+err.Error())
	}
	frozen := operation.ConditionTrue(v1alpha1.ReasonFrozen, "the guest agent has frozen the file systems")
	return true, q.setQuiesced(ctx, snapshot, frozen, api.VMSnapshotGuestAgentIndication)
}

// freezeCall returns a request that freezes a guest. If it fails, the guest may be frozen in part, or may freeze later, so it is asked to thaw. If that
// fails, too, its launcher thaws it.
func (q *Quiescer) freezeCall(guest types.NamespacedName, limit time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		err := q.Agent.Freeze(ctx, guest, limit)
		if err != nil {
			q.Requests.runInBackground(func(ctx context.Context) {
				_ = q.Agent.Thaw(ctx, guest) // it fails for the reason that the freeze has failed for
			})
		}
		return err
	}
}

// agentUnavailableReason returns why the agent of a guest cannot be asked, and nothing if it can. A VMI that does not exist is nil.
func (q *Quiescer) agentUnavailableReason(vmi *v1.VirtualMachineInstance) string {
	switch {
	case vmi == nil || vmi.Status.Phase != v1.Running:
		return "the guest has stopped since the snapshot began"
	case q.Agent == nil:
		return "Kiln's API server of subresources is not installed: guests cannot be frozen"
	case !condition.IsTrue(vmi, v1.VirtualMachineInstanceAgentConnected):
		return fmt.Sprintf("VirtualMachineInstance '%s' has no condition AgentConnected: no guest agent answers", vmi.Name)
	}
	return ""
}

// reportUnquiesced writes that the volumes are snapshotted while the guest may write to them.
func (q *Quiescer) reportUnquiesced(ctx context.Context, snapshot *api.VirtualMachineSnapshot, reason, message string) error {
	return q.setQuiesced(ctx, snapshot, operation.ConditionFalse(reason, message), api.VMSnapshotNoGuestAgentIndication)
}

// setQuiesced writes the condition Quiesced and indications. While the guest is frozen, the time of the condition is the time of the request, because
// the launcher counts the limit from then.
func (q *Quiescer) setQuiesced(
	ctx context.Context, snapshot *api.VirtualMachineSnapshot, text operation.ConditionText, indications ...api.Indication,
) error {
	return q.PatchStatus(ctx, snapshot, func() {
		status, requested := snapshot.Status, metav1.Time{}
		if before := operation.FindCondition(status.Conditions, v1alpha1.ConditionQuiesced); before != nil {
			requested = before.LastTransitionTime
		}
		status.Conditions = operation.SetCondition(status.Conditions, v1alpha1.ConditionQuiesced, text, q.Now())
		if text.Reason == v1alpha1.ReasonFrozen {
			operation.FindCondition(status.Conditions, v1alpha1.ConditionQuiesced).LastTransitionTime = requested
		}
		operation.AddIndications(status, indications...)
	})
}

// Thaw ends the freeze of a guest when its volumes are snapshotted, or when the snapshot ends. The content may be nil. done reports that the guest has
// answered. If the guest does not thaw, its launcher thaws it later, or RetryThaw.
func (q *Quiescer) Thaw(
	ctx context.Context, snapshot *api.VirtualMachineSnapshot, content *api.VirtualMachineSnapshotContent,
) (done bool, err error) {
	if snapshot.Status == nil || q.Agent == nil {
		return true, nil
	}
	quiesced := operation.FindCondition(snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	switch {
	case quiesced == nil || quiesced.Reason != v1alpha1.ReasonFreezing && quiesced.Reason != v1alpha1.ReasonFrozen:
		return true, nil
	case q.Requests.discardUnlessPending(requestFor(snapshot, actionFreeze)): // the thaw could overtake the freeze
		return false, nil
	}
	answered, thawErr := q.sendThaw(snapshot)
	if !answered {
		return false, nil
	}
	write := q.reportThaw(ctx, snapshot, content, quiesced, thawErr)
	if thawErr != nil {
		write = q.WarnAfterWrite(write, snapshot, v1alpha1.ReasonThawFailed, "the guest may still be frozen: "+thawErr.Error())
	}
	return true, write
}

func (q *Quiescer) sendThaw(snapshot *api.VirtualMachineSnapshot) (answered bool, err error) {
	guest := guestOf(snapshot)
	return q.Requests.sendRequest(requestFor(snapshot, actionThaw), func(ctx context.Context) error { return q.Agent.Thaw(ctx, guest) })
}

// reportThaw writes how the freeze of a guest ended. thawErr is why the guest did not thaw, and nil if it did.
func (q *Quiescer) reportThaw(
	ctx context.Context, snapshot *api.VirtualMachineSnapshot, content *api.VirtualMachineSnapshotContent, quiesced *api.Condition, thawErr error,
) error {
	limit := freezeTimeout(snapshot, quiesced.LastTransitionTime.Time)
	expired := freezeExpiredReason(content, quiesced.LastTransitionTime.Time, limit)
	switch {
	case quiesced.Reason == v1alpha1.ReasonFreezing:
		return q.setQuiesced(ctx, snapshot, operation.ConditionFalse(v1alpha1.ReasonFreezeFailed, "the snapshot ended before the guest was frozen"))
	case expired != "":
		return q.setQuiesced(ctx, snapshot, operation.ConditionFalse(v1alpha1.ReasonQuiesceTimeout, expired), api.VMSnapshotQuiesceTimeoutIndication)
	case thawErr != nil:
		return q.setQuiesced(ctx, snapshot, operation.ConditionTrue(v1alpha1.ReasonThawFailed, fmt.Sprintf("the guest was frozen while its volumes were "+
			"snapshotted, and did not thaw: %v; its launcher thaws it %s after the freeze", thawErr, limit)))
	}
	return q.reportThawed(ctx, snapshot)
}

func (q *Quiescer) reportThawed(ctx context.Context, snapshot *api.VirtualMachineSnapshot) error {
	return q.setQuiesced(ctx, snapshot, operation.ConditionTrue(v1alpha1.ReasonThawed, "the guest was frozen while its volumes were snapshotted"))
}

// freezeExpiredReason returns why a freeze ended before all volumes were snapshotted, and nothing if it did not. If a clock went backwards, nobody knows
// whether it did, and the freeze counts as expired.
func freezeExpiredReason(content *api.VirtualMachineSnapshotContent, frozenAt time.Time, limit time.Duration) string {
	if content == nil || content.Status == nil || content.Status.CreationTime == nil {
		return "the freeze ended before all volumes were snapshotted"
	}
	if frozen := content.Status.CreationTime.Sub(frozenAt); frozen < 0 || frozen >= limit {
		return fmt.Sprintf("not all volumes were snapshotted within %s, the limit of a freeze", limit)
	}
	return ""
}

// RetryThaw asks a guest that did not thaw once more, as long as it may be frozen. It returns when to ask next, and 0 for never.
func (q *Quiescer) RetryThaw(ctx context.Context, snapshot *api.VirtualMachineSnapshot) (time.Duration, error) {
	quiesced := operation.FindCondition(snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	if q.Agent == nil || quiesced == nil || quiesced.Reason != v1alpha1.ReasonThawFailed {
		return 0, nil
	}
	frozen := q.Now().Sub(quiesced.LastTransitionTime.Time)
	if frozen < 0 || frozen > freezeTimeout(snapshot, quiesced.LastTransitionTime.Time) {
		return 0, nil
	}
	answered, err := q.sendThaw(snapshot)
	switch {
	case !answered:
		return RequestPoll, nil
	case err != nil:
		return operation.PollInterval, nil
	}
	return 0, q.reportThawed(ctx, snapshot)
}

// ThawOrphan asks the guest of a VM to thaw after the snapshot of the VM was deleted without running its finalizer. It does not wait for the answer.
func (q *Quiescer) ThawOrphan(ctx context.Context, vm *v1.VirtualMachine) error {
	guest := client.ObjectKeyFromObject(vm)
	vmi, err := objects.GetOrNil(ctx, q.Live, guest, &v1.VirtualMachineInstance{})
	if err != nil || q.agentUnavailableReason(vmi) != "" {
		return err
	}
	_, _ = q.Requests.sendRequest(request{guest, vm.UID, actionThaw}, func(ctx context.Context) error { return q.Agent.Thaw(ctx, guest) })
	return nil
}
