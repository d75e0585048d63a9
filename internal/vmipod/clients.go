package vmipod

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Clients identifies the API server of subresources, whose connections launchers accept: by the certificate authorities in a file, and by a DNS name. The
// file comes from a Secret, which may be written later and change. Clients is a manager.Runnable.
type Clients struct {
	file, name string
	now        atomic.Pointer[v1alpha1.GuestPodClients]
	changed    chan event.GenericEvent
}

// NewClients returns the clients with certificates of the PEM authorities in a file and with a DNS name.
func NewClients(file, name string) *Clients {
	c := &Clients{file: file, name: name, changed: make(chan event.GenericEvent, 1)}
	c.readFile()
	return c
}

// Now returns the current clients, nil for none.
func (c *Clients) Now() *v1alpha1.GuestPodClients {
	if c == nil {
		return nil
	}
	return c.now.Load()
}

// readInterval is the time between two reads of the file. Kubelet takes up to two minutes to write it.
const readInterval = 5 * time.Second

// Start reads the file at an interval until the context ends.
func (c *Clients) Start(ctx context.Context) error {
	for tick := time.NewTicker(readInterval); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if c.readFile() {
			select {
			case c.changed <- event.GenericEvent{Object: &v1alpha1.GuestPod{}}:
			case <-ctx.Done():
			}
		}
	}
}

// NeedLeaderElection returns false, so that a replica that becomes the leader has read the file.
func (c *Clients) NeedLeaderElection() bool { return false }

// readFile reads the file, and reports whether the clients have changed. A missing or empty file changes nothing, because kubelet is about to replace it.
func (c *Clients) readFile() bool {
	text, err := os.ReadFile(c.file)
	if err != nil || len(text) == 0 {
		return false
	}
	next := &v1alpha1.GuestPodClients{Authorities: string(text), Name: c.name}
	if was := c.now.Load(); was != nil && *was == *next {
		return false
	}
	c.now.Store(next)
	return true
}

// guestPodClients writes the clients into the GuestPods of running launchers.
type guestPodClients struct{ *environment }

// writeClients writes the current clients into the GuestPod of the pod if they have changed.
func (g guestPodClients) writeClients(ctx context.Context, o observed.Objects) error {
	current, guest := g.Clients.Now(), o.GuestPodOfPod()
	if guest == nil || equality.Semantic.DeepEqual(guest.Spec.Clients, current) {
		return nil
	}
	changed := guest.DeepCopy()
	changed.Spec.Clients = current
	return g.patchGuestPod(ctx, changed, guest)
}
