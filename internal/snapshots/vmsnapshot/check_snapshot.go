package vmsnapshot

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// checkSnapshot begins a snapshot, and fails one that is malformed or late.
type checkSnapshot struct{ statusWriter }

func (c checkSnapshot) Run(ctx context.Context, s *state) (operation.Result, error) {
	if s.snapshot.Status == nil {
		return operation.RetryAfter(operation.NextStep), c.reportProgress(ctx, s, operation.ConditionTrue(v1alpha1.ReasonInProgress, "the snapshot has begun"))
	}
	if errs := snapshot.CheckSnapshot(&s.snapshot.Spec); len(errs) > 0 {
		return c.failSnapshot(ctx, s, v1alpha1.ReasonMalformed, condition.Mistakes(errs))
	}
	if c.isLate(s.snapshot) {
		text := "the snapshot was not taken within its failureDeadline"
		progressing := operation.FindCondition(s.snapshot.Status.Conditions, api.ConditionProgressing)
		if progressing != nil && progressing.Status == corev1.ConditionFalse {
			text += ": " + progressing.Message
		}
		return c.failSnapshot(ctx, s, v1alpha1.ReasonDeadlineExceeded, text)
	}
	return operation.Done(), nil
}
