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

// bindDeadline is the time limit for binding one VMI.
const bindDeadline = 2 * time.Minute

// running are the VMIs that are being bound. Opening a file on a server that is gone cannot be cancelled: the goroutine stays behind, and a VMI
// is not bound again before it ends.
type running struct {
	sync.Mutex
	guests map[types.UID]struct{}
	// limit is bindDeadline unless it is set.
	limit time.Duration
}

// result is what bind returns.
type result struct {
	Bound
	errs field.ErrorList
}

// Bind finds or creates every host resource that the VMI needs, within a deadline. qemu is the account that QEMU runs as, nil if it is not
// known. The errors name every volume and interface that this machine cannot serve.
func (h *BareMachine) Bind(ctx context.Context, vmi *v1.VirtualMachineInstance, qemu *backend.Account) (Bound, field.ErrorList) {
	own := vmi.DeepCopy()
	return h.running.within(ctx, own.UID, func(ctx context.Context) (Bound, field.ErrorList) { return h.bind(ctx, own, qemu) })
}

// within runs the binding of a VMI within the deadline.
func (r *running) within(ctx context.Context, uid types.UID, bind func(context.Context) (Bound, field.ErrorList)) (Bound, field.ErrorList) {
	hangs := func(when string) (Bound, field.ErrorList) {
		err := fmt.Errorf("the storage of the volumes %s: a server may be down; Kiln tries again", when)
		return Bound{}, field.ErrorList{field.InternalError(field.NewPath("spec", "volumes"), err)}
	}
	end := r.begin(uid)
	if end == nil {
		return hangs("still does not answer")
	}
	limit := cmp.Or(r.limit, bindDeadline)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("did not answer within %s", limit))
	defer cancel() // ends qemu-img, but not an open of a file
	done := make(chan result, 1)
	go func() {
		found := recovered(ctx, bind)
		end() // before the result is sent: its receiver may call Bind again at once
		done <- found
	}()
	select {
	case b := <-done:
		return b.Bound, b.errs
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return hangs(cause.Error())
	}
	return hangs("did not answer before the launcher ended")
}

// recovered calls bind and turns a panic into an error: a panic in this goroutine would end the launcher.
func recovered(ctx context.Context, bind func(context.Context) (Bound, field.ErrorList)) (found result) {
	defer func() {
		if r := recover(); r != nil {
			found.errs = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("panic: %v", r))}
		}
	}()
	found.Bound, found.errs = bind(ctx)
	return found
}

// begin returns the function that ends the binding of a VMI; nil for a VMI that is being bound already.
func (r *running) begin(uid types.UID) (end func()) {
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
