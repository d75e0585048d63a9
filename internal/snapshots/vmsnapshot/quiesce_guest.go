package vmsnapshot

import (
	"context"

	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
)

// guestFreeze freezes and thaws the guest of a snapshot.
type guestFreeze struct{ quiescer *quiesce.Quiescer }

// freezeGuest freezes the guest before its volumes are snapshotted.
func (f guestFreeze) freezeGuest(ctx context.Context, s *state) (operation.Result, error) {
	return waitForAnswer(f.quiescer.Freeze(ctx, s.snapshot, s.content))
}

// thawGuest thaws the guest after its volumes are snapshotted, or when the snapshot ends otherwise.
func (f guestFreeze) thawGuest(ctx context.Context, s *state) (operation.Result, error) {
	return waitForAnswer(f.quiescer.Thaw(ctx, s.snapshot, s.content))
}

// waitForAnswer waits for the guest until it has answered.
func waitForAnswer(done bool, err error) (operation.Result, error) {
	if err != nil || !done {
		return operation.RetryAfter(quiesce.RequestPoll), err
	}
	return operation.Done(), nil
}

// retryThaw thaws a guest that did not thaw when its snapshot was taken.
func (f guestFreeze) retryThaw(ctx context.Context, s *state) (operation.Result, error) {
	if after, err := f.quiescer.RetryThaw(ctx, s.snapshot); err != nil || after > 0 {
		return operation.RetryAfter(after), err
	}
	return operation.Done(), nil
}
