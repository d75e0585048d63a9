package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hardware is the GuestHardware of a guest; nil until the controller has named this guest and this node in its status. It is read live: a
// guest that starts with an old one has moved devices.
func (n *Node) hardware(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.GuestHardware, error) {
	found := &v1alpha1.GuestHardware{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID || guest.NodeName != n.Name {
		return nil, nil
	}
	return found, nil
}

// Recorded is what a guest of the cluster has found, for a look at it; nil before its first boot.
func Recorded(ctx context.Context, reader client.Reader, vmi *v1.VirtualMachineInstance) (*record.Record, error) {
	found := &v1alpha1.GuestHardware{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(vmi), found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID {
		return nil, nil
	}
	return found.Spec.Hardware, nil
}

// frozen is the hardware that the guest finds again; nil at the first boot, and at each boot of a guest whose owner wants the latest.
func frozen(vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) (*record.Record, error) {
	if vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil, nil
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil {
		return nil, &refusal{reasonNotRenderable, fmt.Sprintf("GuestHardware '%s': %v", hardware.Name, err)}
	}
	return hardware.Spec.Hardware, nil
}

// await waits for the controller. Its answer comes as an event; a guest that gets none is told of it.
func (n *Node) await(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	told := slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
	if told || time.Since(claimedAt(vmi)) < retryInterval {
		return ctrl.Result{RequeueAfter: retryInterval}, nil
	}
	return n.refused(ctx, vmi, &refusal{reasonHardwareAwaited,
		fmt.Sprintf("Kiln's controller has not named this guest in the status of GuestHardware '%s'; is it running?", vmi.Name)})
}

// claimedAt is when this machine has claimed the guest, by its own clock.
func claimedAt(vmi *v1.VirtualMachineInstance) (at time.Time) {
	for _, moved := range vmi.Status.PhaseTransitionTimestamps {
		if moved.Phase == v1.Scheduled {
			at = moved.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// keep writes what the guest will find, if that is not on record. A record that does not fit never will: the owner is told.
func (n *Node) keep(ctx context.Context, hardware *v1alpha1.GuestHardware, rendered record.Record) error {
	before, err := json.Marshal(hardware.Spec.Hardware)
	if err != nil {
		return err
	}
	now, err := json.Marshal(rendered)
	if err != nil || bytes.Equal(before, now) {
		return err
	}
	changed := hardware.DeepCopy()
	changed.Spec.Hardware = &rendered
	if err = n.Update(ctx, changed); apierrors.IsInvalid(err) || condition.Oversized(err) {
		return &refusal{reasonNotRecordable, fmt.Sprintf("GuestHardware '%s' cannot hold the guest's hardware (%d bytes of JSON): %v", hardware.Name, len(now), err)}
	}
	return err
}
