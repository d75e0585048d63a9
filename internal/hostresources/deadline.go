package hostresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// bindDeadline is the time limit for finding the resources of one VMI.
const bindDeadline = 2 * time.Minute

// bindingsInProgress are the VMIs for which Bind runs. Opening a file on a server that is gone cannot be cancelled: then the goroutine stays behind, and Bind
// does not run again for the VMI before it ends.
type bindingsInProgress struct {
	sync.Mutex
	guests map[types.UID]struct{}
	// limit replaces bindDeadline if it is set.
	limit time.Duration
}

// bindResult is what bind returns.
type bindResult struct {
	Bound
	errs field.ErrorList
}

// Bind finds or creates all resources of a VMI, within a deadline. qemu is the account of QEMU, nil if it is not known. The errors name every volume and
// interface that this machine cannot serve.
func (h *BareMachine) Bind(ctx context.Context, vmi *v1.VirtualMachineInstance, qemu *backend.Account) (Bound, field.ErrorList) {
	own := vmi.DeepCopy()
	return h.running.runWithDeadline(ctx, own.UID, func(ctx context.Context) (Bound, field.ErrorList) { return h.bindResources(ctx, own, qemu) })
}

// runWithDeadline calls bind for a VMI and returns its result, or an error when the deadline has passed.
func (r *bindingsInProgress) runWithDeadline(ctx context.Context, uid types.UID, bind func(context.Context) (Bound, field.ErrorList)) (Bound, field.ErrorList) {
	notAnswering := func(when string) (Bound, field.ErrorList) {
		err := fmt.Errorf("the storage of the volumes %s: a server may be down; Kiln tries again", when)
		return Bound{}, field.ErrorList{field.InternalError(field.NewPath("spec", "volumes"), err)}
	}
	end := r.beginBinding(uid)
	if end == nil {
		return notAnswering("still does not answer")
	}
	limit := cmp.Or(r.limit, bindDeadline)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("did not answer within %s", limit))
	defer cancel() // ends qemu-img, but not an open of a file
	done := make(chan bindResult, 1)
	go func() {
		found := callRecovering(ctx, bind)
		end() // before the result is sent: its receiver may call Bind again at once
		done <- found
	}()
	select {
	case b := <-done:
		return b.Bound, b.errs
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return notAnswering(cause.Error())
	}
	return notAnswering("did not answer before the launcher ended")
}

// callRecovering calls bind and turns a panic into an error: a panic in this goroutine would end the launcher.
func callRecovering(ctx context.Context, bind func(context.Context) (Bound, field.ErrorList)) (found bindResult) {
	defer func() {
		if r := recover(); r != nil {
			found.errs = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("panic: %v", r))}
		}
	}()
	found.Bound, found.errs = bind(ctx)
	return found
}

// beginBinding records that Bind runs for a VMI, and returns the function that records the end. It returns nil if Bind already runs for the VMI.
func (r *bindingsInProgress) beginBinding(uid types.UID) (end func()) {
	r.Lock()
	defer r.Unlock()
	if _, there := r.guests[uid]; there {
		return nil
	}
	if r.guests == nil {
		r.guests = map[types.UID]struct{}{}
	}
	r.guests[uid] = struct{}{}
	return func() {
		r.Lock()
		defer r.Unlock()
		delete(r.guests, uid)
	}
}
