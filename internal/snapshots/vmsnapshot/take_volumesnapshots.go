package vmsnapshot

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
)

// frozenPoll is the interval at which VolumeSnapshots are read while the guest is frozen and waits for them.
const frozenPoll = time.Second

// takeVolumeSnapshots creates the VolumeSnapshots of a content, and waits until all of them are taken.
type takeVolumeSnapshots struct {
	statusWriter
	volumes volumesnapshot.Contents
}

func (t takeVolumeSnapshots) Run(ctx context.Context, s *state) (operation.Result, error) {
	if err := t.volumes.UpdateContent(ctx, s.content); err != nil {
		return operation.Result{}, err
	}
	if s.content.Status.CreationTime != nil {
		return operation.Done(), nil
	}
	waiting := operation.ConditionTrue(v1alpha1.ReasonVolumeSnapshots, operation.ErrorMessage(s.content.Status.Error, "waits for VolumeSnapshots"))
	if err := t.reportProgress(ctx, s, waiting); err != nil {
		return operation.Result{}, err
	}
	quiesced := operation.FindCondition(s.snapshot.Status.Conditions, v1alpha1.ConditionQuiesced)
	if quiesced != nil && quiesced.Reason == v1alpha1.ReasonFrozen {
		return operation.RetryAfter(frozenPoll), nil
	}
	return operation.RetryAfter(t.pollDelay(s)), nil
}
