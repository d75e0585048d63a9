package vmipod

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Clients are whom launchers serve: the API server of subresources, by the file of the authorities of its certificate. The file is that of a Secret which
// may be signed later, and anew. Clients is a manager.Runnable.
type Clients struct {
	file, name string
	now        atomic.Pointer[v1alpha1.GuestPodClients]
	changed    chan event.GenericEvent
}

// NewClients returns the clients with certificates of the authorities in a file, PEM, and with a DNS name.
func NewClients(file, name string) *Clients {
	c := &Clients{file: file, name: name, changed: make(chan event.GenericEvent, 1)}
	c.read()
	return c
}

// Now returns the clients; nil for none.
func (c *Clients) Now() *v1alpha1.GuestPodClients {
	if c == nil {
		return nil
	}
	return c.now.Load()
}

// rereads is the interval at which the file is read. Kubelet takes up to two minutes to write it.
const rereads = 5 * time.Second

// Start reads the file again and again until the context ends.
func (c *Clients) Start(ctx context.Context) error {
	for tick := time.NewTicker(rereads); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if c.read() {
			select {
			case c.changed <- event.GenericEvent{Object: &v1alpha1.GuestPod{}}:
			case <-ctx.Done():
			}
		}
	}
}

// NeedLeaderElection returns false: a replica that becomes the leader has read the file.
func (c *Clients) NeedLeaderElection() bool { return false }

// read reports whether the clients have changed. A file that is missing or empty changes nothing: kubelet replaces it.
func (c *Clients) read() bool {
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
