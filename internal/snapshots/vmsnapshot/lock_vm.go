package vmsnapshot

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
)

// vmLock locks and unlocks the VM of a snapshot.
type vmLock struct {
	statusWriter
	locker *vmlock.Locker
}

// lockVM locks the VM if the snapshot has no content yet.
func (l vmLock) lockVM(ctx context.Context, s *state) (operation.Result, error) {
	if s.content != nil {
		return operation.Done(), nil
	}
	if s.vm == nil {
		text := fmt.Sprintf("VirtualMachine '%s' does not exist", s.snapshot.Spec.Source.Name)
		return operation.RetryAfter(l.pollDelay(s)), l.reportProgress(ctx, s, operation.ConditionFalse(v1alpha1.ReasonSourceMissing, text))
	}
	if busy, err := l.locker.LockForSnapshot(ctx, s.vm, s.snapshot.Name); err != nil {
		return operation.Result{}, err
	} else if busy != "" {
		return operation.RetryAfter(l.pollDelay(s)), l.reportProgress(ctx, s, operation.ConditionFalse(v1alpha1.ReasonSourceBusy, busy))
	}
	return operation.Done(), nil
}

// unlockVM unlocks the VM of a snapshot that has ended.
func (l vmLock) unlockVM(ctx context.Context, s *state) (operation.Result, error) {
	return operation.Done(), l.locker.UnlockFromSnapshot(ctx, s.vm, s.snapshot.Name)
}
