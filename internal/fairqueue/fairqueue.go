// Package fairqueue is the work queue of controllers whose objects tenants write. Namespaces take turns, so that a namespace with a thousand requests delays a
// request of another namespace by one of its own for each worker, and not by a thousand.
package fairqueue

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// New returns a work queue in which namespaces take turns. The requests of one namespace are done in the order in which they were added. Delays and retries
// work as in client-go's work queues. New can be controller.Options.NewQueue; name is the name of the controller in metrics.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
		Name: name, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: newTurns()}),
	})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})
}

// turns implements workqueue.Queue, whose methods are called under the lock of the work queue.
type turns struct {
	// namespaces are those with requests, the next one first.
	namespaces []string
	// waiting are the requests of each namespace, the next one first. A namespace without requests has no entry.
	waiting map[string][]reconcile.Request
	length  int
}

func newTurns() *turns { return &turns{waiting: map[string][]reconcile.Request{}} }

// Touch is called for a waiting request that is added again. The request keeps its place.
func (t *turns) Touch(reconcile.Request) {}

// Push adds a request that is not waiting yet.
func (t *turns) Push(request reconcile.Request) {
	if len(t.waiting[request.Namespace]) == 0 {
		t.namespaces = append(t.namespaces, request.Namespace)
	}
	t.waiting[request.Namespace] = append(t.waiting[request.Namespace], request)
	t.length++
}

// Len returns the number of waiting requests.
func (t *turns) Len() int { return t.length }

// Pop returns the next request of the namespace whose turn it is. The work queue calls Pop only if Len is greater than 0.
func (t *turns) Pop() reconcile.Request {
	namespace := takeFirst(&t.namespaces)
	requests := t.waiting[namespace]
	request := takeFirst(&requests)
	if len(requests) > 0 {
		t.waiting[namespace] = requests
		t.namespaces = append(t.namespaces, namespace)
	} else {
		delete(t.waiting, namespace)
	}
	t.length--
	return request
}

// takeFirst removes the first element of a slice and returns it.
func takeFirst[T any](from *[]T) T {
	var none T
	first := (*from)[0]
	(*from)[0] = none // the array stays until the slice has grown out of it
	*from = (*from)[1:]
	return first
}
