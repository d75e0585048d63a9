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

// assignedHardware returns the GuestHardware of a VMI, and the record that this boot must reproduce: nil at the first boot, and at each boot with annotation
// kilnvm.io/hardware: latest. The object is read past the cache, because a start with an old record would move the guest's devices. Until the controller has
// named this VMI and this node in status.guest, it returns the error of hardwareAwaitedError.
func (n *Node) assignedHardware(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.GuestHardware, *record.Record, error) {
	found := &v1alpha1.GuestHardware{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), found); client.IgnoreNotFound(err) != nil {
		return nil, nil, err
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID || guest.NodeName != n.Name {
		return nil, nil, hardwareAwaitedError(vmi)
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

// hardwareAwaitedError returns errHardwareAwaited, because the controller's update comes as an event. Later than retryInterval after the claim it returns the
// refusal HardwareAwaited, unless the VMI has the reason of another refusal.
func hardwareAwaitedError(vmi *v1.VirtualMachineInstance) error {
	alreadyReported := slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse
	})
	if alreadyReported || time.Since(claimedAt(vmi)) < retryInterval {
		return errHardwareAwaited
	}
	return &guest.Refusal{Reason: v1alpha1.ReasonHardwareAwaited, Message: fmt.Sprintf(
		"Kiln's controller has not named this VMI in the status of GuestHardware '%s'; is the controller running?", vmi.Name)}
}

// claimedAt returns the time at which this machine claimed the VMI, by the machine's clock.
func claimedAt(vmi *v1.VirtualMachineInstance) (at time.Time) {
	for _, moved := range vmi.Status.PhaseTransitionTimestamps {
		if moved.Phase == v1.Scheduled {
			at = moved.PhaseTransitionTimestamp.Time
		}
	}
	return at
}

// saveHardware writes the rendered hardware into spec.hardware of the GuestHardware, unless it is the same. If another process has written the object since it
// was read, the start fails with a conflict, and is repeated with the newer record. A record that is too large is a refusal, because it never fits.
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

// Assigned returns the GuestHardware of a VMI, with its record, which is nil before the first boot, and its FrontendProfile. It returns an empty GuestHardware
// until the controller has assigned one to the VMI.
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
