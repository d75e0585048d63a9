package vmrestore

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// targetWriter writes the target of a restore.
type targetWriter struct {
	*operation.Cluster
	hardware hardware.Writer
}

// dryRunTarget has the API server check the target with a dry run, before anything is changed: rules, policies and other webhooks are part of it.
func (w targetWriter) dryRunTarget(ctx context.Context, s *state) (operation.Result, error) {
	hardware, err := ownership.ReadHardware(ctx, w.Live, client.ObjectKeyFromObject(s.wanted))
	if err != nil {
		return operation.Result{}, err
	}
	if ownership.GuestOf(s.wanted).Ownership(hardware) == ownership.Foreign {
		return operation.Result{}, failBecause(v1alpha1.ReasonHardwareForeign, ownership.ForeignMessage(hardware))
	}
	return operation.Done(), applyTarget(ctx, client.NewDryRunClient(w.Live), s, s.wanted.DeepCopy())
}

// writeTarget writes the target. A VM that exists is written before its hardware: either the API server refuses it, or it gets at once the spec, the mark
// that shows that it is written, and the name of the record, which the step finish applies before the VM may start. A VM that does not exist is written
// after its hardware, because its first boot must find the hardware.
func (w targetWriter) writeTarget(ctx context.Context, s *state) (operation.Result, error) {
	if text := snapshot.Report(s.leftOut); text != "" {
		if err := w.PatchStatus(ctx, s.restore, func() {
			status, changed := s.restore.Status, operation.ConditionTrue(v1alpha1.ReasonHardwareChanged, text)
			status.Conditions = operation.SetCondition(status.Conditions, v1alpha1.ConditionHardwareChanged, changed, w.Now())
		}); err != nil {
			return operation.Result{}, err
		}
	}
	if s.vm == nil {
		if err := w.hardware.WriteForNewVM(ctx, s.wanted, s.kept, s.restore); err != nil {
			return operation.Result{}, err
		}
	}
	return operation.RetryAfter(operation.NextStep), applyTarget(ctx, w.Live, s, s.wanted)
}

// applyTarget creates or patches the target. If the API server refuses it, the restore fails.
func applyTarget(ctx context.Context, c client.Client, s *state, wanted *v1.VirtualMachine) error {
	var err error
	if s.vm != nil {
		err = objects.Patch(ctx, c, wanted, s.vm)
	} else {
		err = c.Create(ctx, wanted)
	}
	if operation.IsRefused(err) {
		return failBecause(v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return err
}
