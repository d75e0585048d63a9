// Package creates creates VMs in a cluster. It records the latency of every create, and every one that failed with its error.
package creates

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	v1 "kubevirt.io/api/core/v1"
)

// Plan says what is created, and how fast.
type Plan struct {
	// Clients is the number of clients; 0 means one. Each has a connection of its own, and at most one open request.
	Clients int
	// Total is the number of creates; 0 means until the context of Run ends.
	Total int
	// Rate is the number of creates a second that are due. With 0 each client creates as soon as its last create has ended (closed loop).
	Rate float64
	// Timeout bounds one create; 0 means that only the API server bounds it.
	Timeout time.Duration
	// VM makes the VM with number i. It is called by several clients at once. Names must differ.
	VM func(i int) *v1.VirtualMachine
}

// Create is one create that was sent.
type Create struct {
	Number          int
	Namespace, Name string
	// Due is the time at which the create was sent; with a rate, the time at which it had to be sent.
	Due time.Time
	// Latency is the time from Due to the end of the answer. A create that waited for a free client has waited for the server.
	Latency time.Duration
	// Err is nil if the API server answered 201. After an error the object may exist: an answer can get lost.
	Err error
}

// Run creates VMs until all are created, or until the context ends. Failed creates are in the result and are not tried again: client-go's own
// repetitions are off. The error is about the plan or the configuration, never about a create.
// A create that the end of the context interrupts is not in the result.
func Run(ctx context.Context, config *rest.Config, p Plan) (Result, error) {
	clients := max(p.Clients, 1)
	posts := make([]*rest.RESTClient, clients)
	for i := range posts {
		var err error
		if posts[i], err = newClient(config); err != nil {
			return Result{}, err
		}
	}
	r := run{Plan: p, begun: time.Now()}
	var all errgroup.Group
	for _, post := range posts {
		all.Go(func() error { return r.createInTurn(ctx, post) })
	}
	err := all.Wait()
	return Result{Creates: r.done, Took: time.Since(r.begun)}, err
}

// newClient makes a client without client-go's limit of requests a second, with a connection of its own.
// Trap: client-go shares the connections of configurations that are alike. A dialer of its own makes this one different.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	own := rest.CopyConfig(config)
	own.QPS = -1
	own.WarningHandler = rest.NoWarnings{}
	own.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 10 * time.Second}).DialContext
	own.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: clientscheme.Codecs}
	own.GroupVersion, own.APIPath = &v1.GroupVersion, "/apis"
	own.ContentType = "application/json"
	return rest.RESTClientFor(own)
}

// run is the state that the clients of one Run share.
type run struct {
	Plan
	begun time.Time
	next  atomic.Int64
	mutex sync.Mutex
	done  []Create
}

// createInTurn creates one VM after another.
func (r *run) createInTurn(ctx context.Context, post rest.Interface) error {
	for {
		i := int(r.next.Add(1)) - 1
		if r.Total > 0 && i >= r.Total {
			return nil
		}
		vm := r.VM(i)
		body, err := json.Marshal(vm)
		if err != nil {
			return fmt.Errorf("VM %d: %w", i, err)
		}
		due := r.dueAt(i)
		if !sleepUntil(ctx, due) {
			return nil
		}
		if r.Rate == 0 {
			due = time.Now()
		}
		err = r.sendCreate(ctx, post, vm.Namespace, body)
		if ctx.Err() != nil {
			return nil
		}
		created := Create{Number: i, Namespace: vm.Namespace, Name: vm.Name, Due: due, Latency: time.Since(due), Err: err}
		r.mutex.Lock()
		r.done = append(r.done, created)
		r.mutex.Unlock()
	}
}

// dueAt returns the time at which create i is to be sent.
func (r *run) dueAt(i int) time.Time {
	if r.Rate == 0 {
		return r.begun
	}
	return r.begun.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
}

// sleepUntil reports whether that time came before the end of the context.
func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.NewTimer(time.Until(at))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		return ctx.Err() == nil
	}
}

// sendCreate sends one request and reads the whole answer.
func (r *run) sendCreate(ctx context.Context, post rest.Interface, namespace string, body []byte) error {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	code := 0
	result := post.Post().Namespace(namespace).Resource("virtualmachines").Body(body).MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	if result.StatusCode(&code); code != http.StatusCreated {
		return fmt.Errorf("the API server answered %d", code)
	}
	return nil
}
