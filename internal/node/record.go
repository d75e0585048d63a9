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

// hardware returns the GuestHardware of a VMI; nil until the controller has named this VMI and this node in its status. It is read past the
// cache: a start with an old record would move the guest's devices.
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

// Recorded returns the hardware record of a VMI, for people to read; nil before its first boot.
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

// frozen returns the hardware that this boot must reproduce; nil at the first boot, and at each boot with hardware 'latest'.
func frozen(vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) (*record.Record, error) {
	if vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil, nil
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil {
		return nil, &refusal{v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestHardware '%s': %v", hardware.Name, err)}
	}
	return hardware.Spec.Hardware, nil
}

// awaitHardware waits for the controller, whose update comes as an event. After retryInterval without one it reports HardwareAwaited.
func (n *Node) awaitHardware(ctx context.Context, vmi *v1.VirtualMachineInstance) (ctrl.Result, error) {
	alreadyReported := slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
	if alreadyReported || time.Since(claimedAt(vmi)) < retryInterval {
		return ctrl.Result{RequeueAfter: retryInterval}, nil
	}
	return n.refused(ctx, vmi, &refusal{v1alpha1.ReasonHardwareAwaited,
		fmt.Sprintf("Kiln's controller has not named this VMI in the status of GuestHardware '%s'; is the controller running?", vmi.Name)})
}

// claimedAt returns when this machine claimed the VMI, by its own clock.
func claimedAt(vmi *v1.VirtualMachineInstance) (at time.Time) {
	for _, moved := range vmi.Status.PhaseTransitionTimestamps {
		if moved.Phase == v1.Scheduled {
			at = moved.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// saveHardware writes the rendered hardware, unless it is on record. A record that is too large never fits, so the VMI's owner gets a refusal.
func (n *Node) saveHardware(ctx context.Context, hardware *v1alpha1.GuestHardware, rendered record.Record) error {
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
		return &refusal{v1alpha1.ReasonNotRecordable,
			fmt.Sprintf("GuestHardware '%s' cannot hold the hardware record (%d bytes of JSON): %v", hardware.Name, len(now), err)}
	}
	return err
}
