package snapshots

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A guest that runs is frozen before the first VolumeSnapshot is made, and thawed when all are cut, or the snapshot ends otherwise. Condition Quiesced says how
// far that is, and is written before the guest is asked: a process that dies leaves what has to be ended. A snapshot never fails because its guest does not
// freeze; it says so.

// freezeLimit is how long a guest is frozen at most. It is KubeVirt's default, which is that of failureDeadline.
const freezeLimit = api.DefaultFailureDeadline

// freezeFor is how long a guest may be frozen that is asked at a time: no longer than the snapshot may take.
func freezeFor(of *api.VirtualMachineSnapshot, at time.Time) time.Duration {
	limit := freezeLimit
	if all := operation.FailureDeadline(of); all > 0 {
		limit = min(limit, all-operation.TimeSince(of.Status.Conditions, api.ConditionReady, at))
	}
	return max(limit, time.Second)
}

// cuts reports whether a content has volumes that are snapshotted.
func cuts(content *api.VirtualMachineSnapshotContent) bool {
	for i := range content.Spec.VolumeBackups {
		if content.Spec.VolumeBackups[i].VolumeSnapshotName != nil {
			return true
		}
	}
	return false
}

// of is a question to the guest of a snapshot.
func (t taking) of(action string) question {
	return question{types.NamespacedName{Namespace: t.snapshot.Namespace, Name: t.snapshot.Spec.Source.Name}, t.snapshot.UID, action}
}

// quiesce has the guest freeze its file systems, if it runs and has volumes to be cut. done reports that it has answered, whatever it has said.
func (c *Controller) quiesce(ctx context.Context, t taking) (done bool, err error) {
	was := operation.FindCondition(t.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	running := t.content.Annotations[v1alpha1.AnnotationSnapshotState] == v1alpha1.SnapshotRunning
	taken := t.content.Status != nil && t.content.Status.CreationTime != nil
	if was != nil && was.Reason != v1alpha1.ReasonFreezing || taken || !running || !cuts(t.content) {
		return true, nil
	}
	vmi, err := objects.GetOrNil(ctx, c.Live, t.of("").guest, &v1.VirtualMachineInstance{})
	if err != nil {
		return false, err
	}
	if vmi != nil && paused(vmi) {
		return true, nil
	}
	if why := c.mute(vmi); why != "" {
		return true, c.unquiet(ctx, t, v1alpha1.ReasonNoGuestAgent, why)
	}
	if was == nil {
		if err := c.quiesced(ctx, t, operation.ConditionText{Status: corev1.ConditionUnknown, Reason: v1alpha1.ReasonFreezing, Message: "asks the guest agent to freeze the file systems"}); err != nil {
			return false, err
		}
		was = operation.FindCondition(t.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	}
	at := was.LastTransitionTime
	done, err = c.asks.ask(t.of(freezing), c.freeze(t, freezeFor(t.snapshot, at.Time)))
	switch {
	case !done:
		return false, nil
	case err != nil:
		write := c.unquiet(ctx, t, v1alpha1.ReasonFreezeFailed, err.Error())
		return true, c.WarnAfterWrite(write, t.snapshot, v1alpha1.ReasonFreezeFailed, "the guest was not frozen: "+err.Error())
	}
	return true, c.quiesced(ctx, t, operation.True(v1alpha1.ReasonFrozen, "the guest agent has frozen the file systems"), api.VMSnapshotGuestAgentIndication)
}

// Actions on guests.
const (
	freezing = "freeze"
	thawing  = "unfreeze"
)

// freeze asks a guest to freeze. One that refuses, or does not answer in time, may freeze later, or has done so in part: it is asked to thaw, and else its
// launcher thaws it.
func (c *Controller) freeze(t taking, limit time.Duration) func(context.Context) error {
	guest := t.of(freezing).guest
	return func(ctx context.Context) error {
		err := c.Agent.Freeze(ctx, guest, limit)
		if err != nil {
			c.asks.start(func(ctx context.Context) {
				_ = c.Agent.Thaw(ctx, guest) // which fails where the freeze has
			})
		}
		return err
	}
}

// mute is why a guest cannot be asked; empty if it can.
func (c *Controller) mute(vmi *v1.VirtualMachineInstance) string {
	switch {
	case vmi == nil || vmi.Status.Phase != v1.Running:
		return "the guest has ended since the snapshot began"
	case c.Agent == nil:
		return "Kiln's API server of subresources is not installed: no guest can be asked"
	case !connected(vmi):
		return fmt.Sprintf("VirtualMachineInstance '%s' has no condition AgentConnected: no guest agent answers", vmi.Name)
	}
	return ""
}

// connected reports whether the guest agent of a VMI has answered.
func connected(vmi *v1.VirtualMachineInstance) bool {
	for _, c := range vmi.Status.Conditions {
		if c.Type == v1.VirtualMachineInstanceAgentConnected && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// unquiet says that the volumes are cut from a guest that writes.
func (c *Controller) unquiet(ctx context.Context, t taking, reason, message string) error {
	return c.quiesced(ctx, t, operation.False(reason, message), api.VMSnapshotNoGuestAgentIndication)
}

// quiesced writes condition Quiesced and indications. The time is that of the question while the guest is frozen: its launcher counts from then.
func (c *Controller) quiesced(ctx context.Context, t taking, what operation.ConditionText, all ...api.Indication) error {
	return c.PatchStatus(ctx, t.snapshot, func() {
		of, asked := t.snapshot.Status, metav1.Time{}
		if was := operation.FindCondition(of.Conditions, v1alpha1.ConditionQuiesced); was != nil {
			asked = was.LastTransitionTime
		}
		of.Conditions = operation.SetCondition(of.Conditions, v1alpha1.ConditionQuiesced, what, c.Now())
		if what.Reason == v1alpha1.ReasonFrozen {
			operation.FindCondition(of.Conditions, v1alpha1.ConditionQuiesced).LastTransitionTime = asked
		}
		indicate(of, all...)
	})
}

// thaw ends the freeze of a guest, once its volumes are cut or the snapshot ends. done reports that the guest has answered; one that does not thaw is left to
// its launcher, and to further attempts (again).
func (c *Controller) thaw(ctx context.Context, t taking) (done bool, err error) {
	if t.snapshot.Status == nil || c.Agent == nil {
		return true, nil
	}
	was := operation.FindCondition(t.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	switch {
	case was == nil || was.Reason != v1alpha1.ReasonFreezing && was.Reason != v1alpha1.ReasonFrozen:
		return true, nil
	case c.asks.open(t.of(freezing)): // a thaw could overtake it
		return false, nil
	}
	done, failed := c.asks.ask(t.of(thawing), func(ctx context.Context) error { return c.Agent.Thaw(ctx, t.of(thawing).guest) })
	if !done {
		return false, nil
	}
	write := c.thawed(ctx, t, was, failed)
	if failed != nil {
		write = c.WarnAfterWrite(write, t.snapshot, v1alpha1.ReasonThawFailed, "the guest may still be frozen: "+failed.Error())
	}
	return true, write
}

// thawed writes how a guest that was frozen, or asked to freeze, was thawed. failed is why the guest did not thaw; nil if it did.
func (c *Controller) thawed(ctx context.Context, t taking, was *api.Condition, failed error) error {
	expired := c.expired(t, was)
	switch {
	case was.Reason == v1alpha1.ReasonFreezing:
		return c.quiesced(ctx, t, operation.False(v1alpha1.ReasonFreezeFailed, "the snapshot ended before the guest was frozen"))
	case expired != "":
		return c.quiesced(ctx, t, operation.False(v1alpha1.ReasonQuiesceTimeout, expired), api.VMSnapshotQuiesceTimeoutIndication)
	case failed != nil:
		return c.quiesced(ctx, t, operation.True(v1alpha1.ReasonThawFailed, fmt.Sprintf("the guest was frozen while its volumes were cut, and did not thaw: %v; its "+
			"launcher thaws it %s after the freeze", failed, freezeFor(t.snapshot, was.LastTransitionTime.Time))))
	}
	return c.quiesced(ctx, t, operation.True(v1alpha1.ReasonThawed, "the guest was frozen while its volumes were cut"))
}

// expired is why a freeze has ended before all volumes were cut; empty if it has not. Where a clock went backwards, nobody knows.
func (c *Controller) expired(t taking, was *api.Condition) string {
	limit := freezeFor(t.snapshot, was.LastTransitionTime.Time)
	if t.content == nil || t.content.Status == nil || t.content.Status.CreationTime == nil {
		return "the freeze was ended before all volumes were cut"
	}
	if frozen := t.content.Status.CreationTime.Sub(was.LastTransitionTime.Time); frozen < 0 || frozen >= limit {
		return fmt.Sprintf("the volumes were not all cut within %s, when a freeze ends", limit)
	}
	return ""
}

// again asks a guest once more to thaw, as long as it may be frozen. It returns when it is to be asked next; 0 for never.
func (c *Controller) again(ctx context.Context, t taking) (time.Duration, error) {
	was := operation.FindCondition(t.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	if c.Agent == nil || was == nil || was.Reason != v1alpha1.ReasonThawFailed {
		return 0, nil
	}
	frozen := c.Now().Sub(was.LastTransitionTime.Time)
	if frozen < 0 || frozen > freezeFor(t.snapshot, was.LastTransitionTime.Time) {
		return 0, nil
	}
	done, failed := c.asks.ask(t.of(thawing), func(ctx context.Context) error { return c.Agent.Thaw(ctx, t.of(thawing).guest) })
	switch {
	case !done:
		return answerPoll, nil
	case failed != nil:
		return operation.PollInterval, nil
	}
	return 0, c.quiesced(ctx, t, operation.True(v1alpha1.ReasonThawed, "the guest was frozen while its volumes were cut"))
}

// thawOrphan asks the guest of a VM to thaw whose snapshot is gone by force. Nobody waits for the answer.
func (c *Controller) thawOrphan(ctx context.Context, vm *v1.VirtualMachine) error {
	vmi, err := objects.GetOrNil(ctx, c.Live, client.ObjectKeyFromObject(vm), &v1.VirtualMachineInstance{})
	if err != nil || c.mute(vmi) != "" {
		return err
	}
	key := client.ObjectKeyFromObject(vm)
	c.asks.ask(question{key, vm.UID, thawing}, func(ctx context.Context) error { return c.Agent.Thaw(ctx, key) })
	return nil
}
