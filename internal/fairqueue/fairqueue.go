// Package fairqueue is the work queue of controllers whose objects tenants write. Namespaces take turns, so that a namespace with a thousand requests delays a
// request of another namespace by one of its own for each worker, and not by a thousand.
package fairqueue

import (
	"container/list"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is a work queue in which namespaces take turns. Within a namespace the requests of Add come before those of AddDeferred, each in the order in which
// they were added. Delays and retries are those of client-go's work queues.
type Queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	order *order
}

// New returns a queue, and can be controller.Options.NewQueue. name is the name of the controller in metrics.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	o := &order{waiting: map[string]*lanes{}, in: map[reconcile.Request]place{}, deferred: map[reconcile.Request]bool{}}
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
		Name: name, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: o}),
	})
	return &Queue{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying}), o}
}

// Add adds a request. One that waits among the deferred ones no longer does.
func (q *Queue) Add(request reconcile.Request) {
	q.order.mark(request, false)
	q.TypedRateLimitingInterface.Add(request)
}

// AddDeferred adds a request that is done after the others of its namespace. One that waits among the others stays there.
func (q *Queue) AddDeferred(request reconcile.Request) {
	q.order.mark(request, true)
	q.TypedRateLimitingInterface.Add(request)
}

// lanes are the requests of one namespace that wait. Neither list has a request of the other.
type lanes struct{ prompt, deferred list.List }

func (l *lanes) len() int { return l.prompt.Len() + l.deferred.Len() }

// place is the list in which a request waits, and its element there.
type place struct {
	list    *list.List
	element *list.Element
}

// order implements workqueue.Queue, whose methods are called under the lock of the work queue.
type order struct {
	// turns are the namespaces with requests, the next one first.
	turns   []string
	waiting map[string]*lanes
	in      map[reconcile.Request]place

	mutex sync.Mutex // of deferred: marks are made outside of the work queue's lock
	// deferred are the requests that AddDeferred has added last.
	deferred map[reconcile.Request]bool
}

func (o *order) mark(request reconcile.Request, later bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if later {
		o.deferred[request] = true
	} else {
		delete(o.deferred, request)
	}
}

func (o *order) isDeferred(request reconcile.Request) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.deferred[request]
}

// Touch is called for a request that waits and is added again.
func (o *order) Touch(request reconcile.Request) {
	own, at := o.waiting[request.Namespace], o.in[request]
	if own == nil || at.list != &own.deferred || o.isDeferred(request) {
		return
	}
	at.list.Remove(at.element)
	o.put(request, &own.prompt)
}

// Push adds a request that does not wait.
func (o *order) Push(request reconcile.Request) {
	own := o.waiting[request.Namespace]
	if own == nil {
		own = &lanes{}
		o.waiting[request.Namespace] = own
		o.turns = append(o.turns, request.Namespace)
	}
	if o.isDeferred(request) {
		o.put(request, &own.deferred)
		return
	}
	o.put(request, &own.prompt)
}

func (o *order) put(request reconcile.Request, last *list.List) {
	o.in[request] = place{last, last.PushBack(request)}
}

// Len is the number of requests that wait.
func (o *order) Len() int { return len(o.in) }

// Pop returns the next request of the namespace whose turn it is. The work queue calls Pop only if Len is greater than 0.
func (o *order) Pop() reconcile.Request {
	namespace := o.turns[0]
	o.turns[0] = ""
	o.turns = o.turns[1:]
	own := o.waiting[namespace]
	from := &own.prompt
	if from.Len() == 0 {
		from = &own.deferred
	}
	request := from.Remove(from.Front()).(reconcile.Request) //nolint:forcetypeassert // put adds nothing else
	delete(o.in, request)
	if own.len() > 0 {
		o.turns = append(o.turns, namespace)
	} else {
		delete(o.waiting, namespace)
	}
	o.mark(request, false)
	return request
}
