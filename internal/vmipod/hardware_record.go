package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
)

// hardwareRecord runs stage 2 with the facts that a launcher reports of its host, and records the hardware. The launcher may report anything. It starts no
// guest before the GuestPod has the hardware, which is written after the record: so every guest that has run is on record, whichever process dies.
type hardwareRecord struct{ *environment }

// longestFrontend is the maximum of GuestPod.spec.hardware.frontend, in characters.
const longestFrontend = 1 << 20

// recordHardware writes the hardware to the GuestHardware of the name, then to the GuestPod. It does nothing until internal/lifecycle has named the VMI in the
// status of the GuestHardware, whose event leads here again.
func (h hardwareRecord) recordHardware(ctx context.Context, o observed.Objects) (*condition.Cause, error) {
	if !h.Configured() {
		return nil, retryError("the configuration has not been read yet")
	}
	hardware, err := ownership.ReadHardware(ctx, h.Live, o.Key)
	if err != nil || hardware == nil || hardware.Status.Guest == nil || hardware.Status.Guest.UID != o.VMI.UID ||
		hardware.Status.Guest.NodeName != o.Pod.Spec.NodeName {
		return nil, err
	}
	vmi, err := objects.GetOrNil(ctx, h.Live, o.Key, &v1.VirtualMachineInstance{})
	if err != nil || vmi == nil || vmi.UID != o.VMI.UID || vmi.DeletionTimestamp != nil || !observed.IsRecorded(vmi, o.Pod.UID) {
		return nil, err
	}
	made, cause := h.renderHardware(vmi, hardware, o.GuestPod.Status.Facts)
	if cause != nil {
		return cause, nil
	}
	frontend, err := made.Frontend.Marshal()
	if err != nil {
		return nil, fmt.Errorf("writing the frontend: %w", err)
	}
	if len(frontend) > longestFrontend {
		return &condition.Cause{Reason: v1alpha1.ReasonNotRecordable,
			Message: fmt.Sprintf("the domain has %d bytes of XML, and a GuestPod holds at most %d: use fewer devices", len(frontend), longestFrontend)}, nil
	}
	guest := o.GuestPod.DeepCopy()
	guest.Spec.Hardware = &v1alpha1.GuestPodHardware{Frontend: frontend, Digest: made.Record.Digest, VMIGeneration: vmi.Generation}
	if hasRun(vmi, hardware) { // the GuestPod was created again: the guest has the hardware of its start, not the hardware of the current VMI
		guest.Spec.Hardware.VMIGeneration = 0
	} else if cause, err := h.saveRecord(ctx, hardware, made.Record); err != nil || cause != nil {
		return cause, err
	}
	return nil, h.patchGuestPod(ctx, guest, o.GuestPod)
}

// renderHardware runs stage 2. The guest gets the recorded hardware, unless annotation kilnvm.io/hardware asks for new hardware.
func (h hardwareRecord) renderHardware(
	vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware, report *v1alpha1.GuestFacts,
) (made render.Hardware, cause *condition.Cause) {
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
	machine := render.Machine{VMI: vmi, Defaults: h.Configuration().Frontend.With(hardware.Status.Guest.Frontend)}
	// If the GuestPod is created again while the guest runs, it needs the recorded hardware, also with that annotation.
	if hasRun(vmi, hardware) || vmi.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest {
		if err := record.Check(hardware.Spec.Hardware); err != nil {
			return refuse(v1alpha1.ReasonNotRenderable, fmt.Sprintf("GuestHardware '%s': %v", hardware.Name, err))
		}
		machine.Frozen = hardware.Spec.Hardware
	}
	made, errs := render.FromFacts(machine, facts)
	if len(errs) > 0 {
		cause := condition.NotRendered(errs)
		return made, &cause
	}
	return made, nil
}

// hasRun reports whether the guest of a VMI has run with the recorded hardware. Then the record does not change.
func hasRun(vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) bool {
	booted := hardware.Status.LastBoot != nil && hardware.Status.LastBoot.UID == vmi.UID
	return hardware.Spec.Hardware != nil && (booted || vmi.Status.Phase == v1.Running)
}

// saveRecord writes the record if it has changed. It returns a conflict if another process has written since the GuestHardware was read.
func (h hardwareRecord) saveRecord(ctx context.Context, hardware *v1alpha1.GuestHardware, made record.Record) (*condition.Cause, error) {
	if hardware.Spec.Hardware != nil && equality.Semantic.DeepEqual(*hardware.Spec.Hardware, made) {
		return nil, nil
	}
	saved := hardware.DeepCopy()
	saved.Spec.Hardware = &made
	err := objects.Patch(ctx, h.Live, saved, hardware)
	if apierrors.IsInvalid(err) || condition.Oversized(err) {
		return &condition.Cause{Reason: v1alpha1.ReasonNotRecordable,
			Message: fmt.Sprintf("GuestHardware '%s' cannot hold the hardware record: %v", hardware.Name, err)}, nil
	}
	return nil, err
}
