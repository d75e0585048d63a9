package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The launcher reports facts of its host, and may lie. The controller runs stage 2 itself. It records the result before it tells the launcher, which
// starts no guest before: so every guest that has run is on record, whichever process dies.

// longestFrontend is the maximum of GuestPod.spec.hardware.frontend, in characters.
const longestFrontend = 1 << 20

// equip runs stage 2 with the facts of the GuestPod, and writes the hardware: to the GuestHardware of the name, then to the GuestPod. It waits for
// internal/lifecycle to name the VMI in the status of the GuestHardware, whose event leads here again.
func (c *Controller) equip(ctx context.Context, s seen) (*condition.Cause, error) {
	if !c.Configured() {
		return nil, later("the configuration has not been read yet")
	}
	hardware, err := lifecycle.Hardware(ctx, c.Live, s.key)
	if err != nil || hardware == nil || hardware.Status.Guest == nil || hardware.Status.Guest.UID != s.vmi.UID ||
		hardware.Status.Guest.NodeName != s.pod.Spec.NodeName {
		return nil, err
	}
	vmi, err := get(ctx, c.Live, s.key, &v1.VirtualMachineInstance{})
	if err != nil || vmi == nil || vmi.UID != s.vmi.UID || vmi.DeletionTimestamp != nil || !recorded(vmi, s.pod.UID) {
		return nil, err
	}
	made, why := c.stageTwo(vmi, hardware, s.guest.Status.Facts)
	if why != nil {
		return why, nil
	}
	frontend, err := made.Frontend.Marshal()
	if err != nil {
		return nil, fmt.Errorf("writing the frontend: %w", err)
	}
	if len(frontend) > longestFrontend {
		return &condition.Cause{Reason: v1alpha1.ReasonNotRecordable,
			Message: fmt.Sprintf("the domain has %d bytes of XML, of which a GuestPod holds %d at most: use fewer devices", len(frontend), longestFrontend)}, nil
	}
	told := s.guest.DeepCopy()
	told.Spec.Hardware = &v1alpha1.GuestPodHardware{Frontend: frontend, Digest: made.Record.Digest, VMIGeneration: vmi.Generation}
	if ran(vmi, hardware) { // the GuestPod was made anew: the guest has what it was started with, whatever its VMI has become since
		told.Spec.Hardware.VMIGeneration = 0
	} else if why, err := c.save(ctx, hardware, made.Record); err != nil || why != nil {
		return why, err
	}
	err = objects.Patch(ctx, c.Live, told, s.guest)
	if err == nil {
		c.guests.Note(told, c.Now())
	}
	return nil, client.IgnoreNotFound(err)
}

// stageTwo makes the hardware of this boot: that of the record, unless annotation kilnvm.io/hardware asks for new one.
func (c *Controller) stageTwo(
	vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware, report *v1alpha1.GuestFacts,
) (made render.Hardware, why *condition.Cause) {
	refuse := func(reason, message string) (render.Hardware, *condition.Cause) {
		return render.Hardware{}, &condition.Cause{Reason: reason, Message: message}
	}
	facts, err := render.ReadFacts(vmi, report)
	if err != nil {
		return refuse(v1alpha1.ReasonInvalidFacts, fmt.Sprintf("GuestPod '%s': %v", vmi.Name, err))
	}
	if err := config.CheckFrontend(hardware.Status.Guest.Frontend); err != nil {
		return refuse(v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestHardware '%s': status.guest: %v", hardware.Name, err))
	}
	m := render.Machine{VMI: vmi, Defaults: c.Configuration().Frontend.With(hardware.Status.Guest.Frontend)}
	// A GuestPod that is made anew while the guest runs asks for its hardware once more: that is recorded, and no newer one.
	if ran(vmi, hardware) || vmi.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest {
		if err := record.Check(hardware.Spec.Hardware); err != nil {
			return refuse(v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestHardware '%s': %v", hardware.Name, err))
		}
		m.Frozen = hardware.Spec.Hardware
	}
	made, errs := render.FromFacts(m, facts)
	if len(errs) > 0 {
		why := condition.NotRendered(errs)
		return made, &why
	}
	return made, nil
}

// ran reports whether a guest has run with the recorded hardware. Then the record stays.
func ran(vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) bool {
	booted := hardware.Status.LastBoot != nil && hardware.Status.LastBoot.UID == vmi.UID
	return hardware.Spec.Hardware != nil && (booted || vmi.Status.Phase == v1.Running)
}

// save writes the record, unless it is there. It fails with a conflict if another process has written since the GuestHardware was read.
func (c *Controller) save(ctx context.Context, hardware *v1alpha1.GuestHardware, made record.Record) (*condition.Cause, error) {
	if hardware.Spec.Hardware != nil && equality.Semantic.DeepEqual(*hardware.Spec.Hardware, made) {
		return nil, nil
	}
	saved := hardware.DeepCopy()
	saved.Spec.Hardware = &made
	err := objects.Patch(ctx, c.Live, saved, hardware)
	if apierrors.IsInvalid(err) || condition.Oversized(err) {
		return &condition.Cause{Reason: v1alpha1.ReasonNotRecordable,
			Message: fmt.Sprintf("GuestHardware '%s' cannot hold the hardware record: %v", hardware.Name, err)}, nil
	}
	return nil, err
}
