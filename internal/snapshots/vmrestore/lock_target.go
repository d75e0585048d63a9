package vmrestore

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
)

// waitForOtherOperation waits until no other snapshot or restore has locked the target.
func waitForOtherOperation(_ context.Context, s *state) (operation.Result, error) {
	if busy := vmlock.BlockedForRestore(s.vm, s.restore.Name); busy != "" {
		return operation.Result{}, waitBecause(v1alpha1.ReasonSourceBusy, busy)
	}
	return operation.Done(), nil
}

// lockTarget locks the target, so that it is not started.
func (r *Reconciler) lockTarget(ctx context.Context, s *state) (operation.Result, error) {
	if busy, err := r.orphans.LockForRestore(ctx, s.vm, s.restore.Name); err != nil {
		return operation.Result{}, err
	} else if busy != "" {
		return operation.Result{}, waitBecause(v1alpha1.ReasonSourceBusy, busy)
	}
	return operation.Done(), nil
}
