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
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hardware returns the GuestHardware of a VMI, and the record that this boot must reproduce: nil at the first boot, and at each boot with
// annotation kilnvm.io/hardware: latest. The object is read past the cache: a start with an old record would move the guest's devices. Until the
// controller has named this VMI and this node in its status, the error is that of awaitHardware.
func (n *Node) hardware(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.GuestHardware, *record.Record, error) {
	found := &v1alpha1.GuestHardware{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), found); client.IgnoreNotFound(err) != nil {
		return nil, nil, err
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID || guest.NodeName != n.Name {
		return nil, nil, awaitHardware(vmi)
	}
	if err := config.CheckFrontend(found.Status.Guest.Frontend); err != nil {
		return nil, nil, &guest.Refusal{Reason: v1alpha1.ReasonNotRenderable, Message: fmt.Sprintf("GuestHardware '%s': status.guest: %v", found.Name, err)}
	}
	if vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return found, nil, nil
	}
	if err := record.Check(found.Spec.Hardware); err != nil {
		return nil, nil, &guest.Refusal{Reason: v1alpha1.ReasonNotRenderable, Message: fmt.Sprintf("GuestHardware '%s': %v", found.Name, err)}
	}
	return found, found.Spec.Hardware, nil
}

// awaitHardware returns errHardwareAwaited, and the refusal HardwareAwaited after retryInterval: the controller's update comes as an event. It does
// not replace the reason of an earlier refusal.
func awaitHardware(vmi *v1.VirtualMachineInstance) error {
	alreadyReported := slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
	if alreadyReported || time.Since(claimedAt(vmi)) < retryInterval {
		return errHardwareAwaited
	}
	return &guest.Refusal{Reason: v1alpha1.ReasonHardwareAwaited, Message: fmt.Sprintf(
		"Kiln's controller has not named this VMI in the status of GuestHardware '%s'; is the controller running?", vmi.Name)}
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

// saveHardware writes the rendered hardware, unless it is on record. The update has the resource version that hardware was read with: if another
// process has written the record since, the start fails with a conflict and is repeated with the newer record.
// A record that is too large never fits, so the VMI's owner gets a refusal.
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
		return &guest.Refusal{Reason: v1alpha1.ReasonNotRecordable, Message: fmt.Sprintf(
			"GuestHardware '%s' cannot hold the hardware record (%d bytes of JSON): %v", hardware.Name, len(now), err)}
	}
	return err
}

// Assigned returns the GuestHardware of a VMI, for people to read: its record, which is nil before the first boot, and its FrontendProfile. It returns
// an empty one before the controller has assigned it to the VMI.
func Assigned(ctx context.Context, reader client.Reader, vmi *v1.VirtualMachineInstance) (*v1alpha1.GuestHardware, error) {
	found := &v1alpha1.GuestHardware{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(vmi), found); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID {
		return &v1alpha1.GuestHardware{}, nil
	}
	return found, config.CheckFrontend(found.Status.Guest.Frontend)
}
