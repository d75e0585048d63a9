package vmsnapshot

import (
	"context"

	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
)

// freezeGuest freezes the guest before its volumes are snapshotted.
type freezeGuest struct{ quiescer *quiesce.Quiescer }

func (f freezeGuest) Run(ctx context.Context, s *state) (operation.Result, error) {
	return waitForAnswer(f.quiescer.Freeze(ctx, s.snapshot, s.content))
}

// thawGuest thaws the guest after its volumes are snapshotted, or when the snapshot ends otherwise.
type thawGuest struct{ quiescer *quiesce.Quiescer }

func (t thawGuest) Run(ctx context.Context, s *state) (operation.Result, error) {
	return waitForAnswer(t.quiescer.Thaw(ctx, s.snapshot, s.content))
}

// waitForAnswer waits for the guest until it has answered.
func waitForAnswer(done bool, err error) (operation.Result, error) {
	if err != nil || !done {
		return operation.RetryAfter(quiesce.RequestPoll), err
	}
	return operation.Done(), nil
}

// retryThaw thaws a guest that did not thaw when its snapshot was taken.
type retryThaw struct{ quiescer *quiesce.Quiescer }

func (t retryThaw) Run(ctx context.Context, s *state) (operation.Result, error) {
	if after, err := t.quiescer.RetryThaw(ctx, s.snapshot); err != nil || after > 0 {
		return operation.RetryAfter(after), err
	}
	return operation.Done(), nil
}
