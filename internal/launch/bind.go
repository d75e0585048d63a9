package launch

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// bindDeadline bounds how long the host resources of one guest may take to find.
const bindDeadline = 2 * time.Minute

// binding are the guests whose host resources are being looked for. A file on a server that is gone cannot be given up once it is
// being opened: the one who opens it stays behind, and is waited for before another is sent.
type binding struct {
	sync.Mutex
	guests map[types.UID]struct{}
	// limit is bindDeadline unless it is set.
	limit time.Duration
}

type bound struct {
	backend.Bindings
	errs field.ErrorList
}

// bind finds or makes the host resources of a VMI, within a deadline.
func (n *Node) bind(ctx context.Context, vmi *v1.VirtualMachineInstance) (backend.Bindings, field.ErrorList) {
	hangs := func(when string) (backend.Bindings, field.ErrorList) {
		err := fmt.Errorf("the storage of its volumes %s: a server may be gone; it is tried again", when)
		return backend.Bindings{}, field.ErrorList{field.InternalError(field.NewPath("spec", "volumes"), err)}
	}
	if !n.binding.begin(vmi.UID) {
		return hangs("still does not answer")
	}
	done := make(chan bound, 1)
	go func(vmi *v1.VirtualMachineInstance) {
		found := n.found(vmi)
		n.binding.end(vmi.UID) // before it is told: whoever is told may ask again at once
		done <- found
	}(vmi.DeepCopy())
	limit := cmp.Or(n.binding.limit, bindDeadline)
	select {
	case b := <-done:
		return b.Bindings, b.errs
	case <-time.After(limit):
		return hangs(fmt.Sprintf("did not answer within %s", limit))
	case <-ctx.Done():
		return hangs("did not answer before the launcher ended")
	}
}

// found is what Bind finds. Its panic would end the launcher, since nobody else catches it on a goroutine of its own.
func (n *Node) found(vmi *v1.VirtualMachineInstance) (found bound) {
	defer func() {
		if r := recover(); r != nil {
			found.errs = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("panic: %v", r))}
		}
	}()
	found.Bindings, found.errs = n.Host.Bind(vmi)
	return found
}

// begin is false for a guest that is there already.
func (b *binding) begin(uid types.UID) bool {
	b.Lock()
	defer b.Unlock()
	if _, there := b.guests[uid]; there {
		return false
	}
	if b.guests == nil {
		b.guests = map[types.UID]struct{}{}
	}
	b.guests[uid] = struct{}{}
	return true
}

func (b *binding) end(uid types.UID) {
	b.Lock()
	defer b.Unlock()
	delete(b.guests, uid)
}
