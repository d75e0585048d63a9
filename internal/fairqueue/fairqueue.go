// Package fairqueue is the work queue of controllers whose objects tenants write. Namespaces take turns, so that a namespace with a thousand requests delays a
// request of another namespace by one of its own for each worker, and not by a thousand.
package fairqueue

import (
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
	o := &order{waiting: map[string]*lanes{}, in: map[reconcile.Request]lane{}, deferred: map[reconcile.Request]bool{}}
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

// lane is where a request waits.
type lane int

const (
	prompt lane = iota + 1
	deferred
)

// lanes are the requests of one namespace. A request that has changed its lane is in both lists, and counts in that of order.in.
type lanes struct{ prompt, deferred []reconcile.Request }

// order implements workqueue.Queue, whose methods are called under the lock of the work queue.
type order struct {
	// turns are the namespaces with requests, the next one first.
	turns   []string
	waiting map[string]*lanes
	in      map[reconcile.Request]lane

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
	if o.in[request] == deferred && !o.isDeferred(request) {
		o.put(request, prompt)
	}
}

// Push adds a request that does not wait.
func (o *order) Push(request reconcile.Request) {
	if o.isDeferred(request) {
		o.put(request, deferred)
		return
	}
	o.put(request, prompt)
}

func (o *order) put(request reconcile.Request, to lane) {
	own := o.waiting[request.Namespace]
	if own == nil {
		own = &lanes{}
		o.waiting[request.Namespace] = own
		o.turns = append(o.turns, request.Namespace)
	}
	o.in[request] = to
	if to == prompt {
		own.prompt = append(own.prompt, request)
	} else {
		own.deferred = append(own.deferred, request)
	}
}

// Len is the number of requests that wait.
func (o *order) Len() int { return len(o.in) }

// Pop returns the next request of the namespace whose turn it is. The work queue calls Pop only if Len is greater than 0.
func (o *order) Pop() reconcile.Request {
	for {
		namespace := o.turns[0]
		o.turns[0] = ""
		o.turns = o.turns[1:]
		own := o.waiting[namespace]
		request, found := o.next(own)
		if len(own.prompt)+len(own.deferred) > 0 {
			o.turns = append(o.turns, namespace)
		} else {
			delete(o.waiting, namespace)
		}
		if found {
			delete(o.in, request)
			o.mark(request, false)
			return request
		}
	}
}

// next takes the first request of a namespace that has not changed its lane.
func (o *order) next(own *lanes) (request reconcile.Request, found bool) {
	if request, found = o.first(&own.prompt, prompt); found {
		return request, true
	}
	return o.first(&own.deferred, deferred)
}

func (o *order) first(list *[]reconcile.Request, of lane) (request reconcile.Request, found bool) {
	for len(*list) > 0 && !found {
		request = (*list)[0]
		(*list)[0] = reconcile.Request{}
		*list = (*list)[1:]
		found = o.in[request] == of
	}
	return request, found
}
