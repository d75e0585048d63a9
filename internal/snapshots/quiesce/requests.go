package quiesce

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// RequestPoll is the interval at which a reconciler looks for the answer to a request.
	RequestPoll = 500 * time.Millisecond
	// requestTimeout bounds a request. The API server of subresources waits as long for a launcher.
	requestTimeout = 30 * time.Second
	// answerLifetime is how long an answer is kept for a reconciler that has not fetched it.
	answerLifetime = time.Minute
	// maxPendingPerNamespace is how many guests of one namespace are asked at a time, because a tenant may run guests that never answer.
	maxPendingPerNamespace = 16
)

// Requests sends requests to guests in the background, and keeps their answers until reconcilers fetch them. A guest may take long to answer, and no
// worker waits for it.
type Requests struct {
	// Go starts a function in the background; nil is a goroutine. Tests replace it.
	Go func(func())

	mutex   sync.Mutex
	answers map[request]*answer
	// lifetime ends when the manager stops. Reconcilers may send requests a moment before the manager calls Start.
	lifetime context.Context //nolint:containedctx // it ends with the process, not with a call
	end      context.CancelFunc
	running  sync.WaitGroup
}

// NewRequests returns a sender of requests, which must be added to the manager.
func NewRequests() *Requests {
	lifetime, end := context.WithCancel(context.Background())
	return &Requests{answers: map[request]*answer{}, lifetime: lifetime, end: end}
}

// request is an action on the guest of a snapshot.
type request struct {
	guest    types.NamespacedName
	snapshot types.UID
	action   string
}

type answer struct {
	arrived bool
	err     error
}

// Start implements manager.Runnable: requests end with the manager, and the manager waits for them. A guest that was asked to freeze and not yet to
// thaw is thawed by its launcher, or asked again by the next controller.
func (r *Requests) Start(ctx context.Context) error {
	<-ctx.Done()
	r.mutex.Lock()
	r.end()
	r.mutex.Unlock()
	r.running.Wait()
	return nil
}

// sendRequest sends a request, unless it is pending, and returns the answer if it has arrived. An answer is returned once.
func (r *Requests) sendRequest(sent request, call func(context.Context) error) (arrived bool, err error) {
	r.mutex.Lock()
	found := r.answers[sent]
	switch {
	case found != nil && found.arrived:
		delete(r.answers, sent)
		r.mutex.Unlock()
		return true, found.err
	case found != nil || r.countPending(sent.guest.Namespace) >= maxPendingPerNamespace:
		r.mutex.Unlock()
		return false, nil
	}
	next := &answer{}
	r.answers[sent] = next
	r.mutex.Unlock()
	r.runInBackground(func(ctx context.Context) {
		err := call(ctx)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		next.arrived, next.err = true, err
		time.AfterFunc(answerLifetime, func() { r.discardAnswer(sent, next) })
	})
	return r.fetchAnswer(sent, next)
}

// fetchAnswer returns an answer if it has arrived already.
func (r *Requests) fetchAnswer(sent request, from *answer) (arrived bool, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if from.arrived && r.answers[sent] == from {
		delete(r.answers, sent)
		return true, from.err
	}
	return false, nil
}

// runInBackground runs work for at most requestTimeout, and as long as the manager runs. After the manager has stopped it does nothing.
func (r *Requests) runInBackground(work func(context.Context)) {
	bounded := func() {
		ctx, cancel := context.WithTimeout(r.lifetime, requestTimeout)
		defer cancel()
		work(ctx)
	}
	if r.Go != nil {
		r.Go(bounded)
		return
	}
	r.mutex.Lock() // Start must not wait while the count is raised
	defer r.mutex.Unlock()
	if r.lifetime.Err() == nil {
		r.running.Go(bounded)
	}
}

// countPending returns how many requests to guests of a namespace have no answer. The caller holds the mutex.
func (r *Requests) countPending(namespace string) (n int) {
	for sent, answer := range r.answers {
		if sent.guest.Namespace == namespace && !answer.arrived {
			n++
		}
	}
	return n
}

// discardAnswer deletes an answer that nobody has fetched.
func (r *Requests) discardAnswer(sent request, unfetched *answer) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.answers[sent] == unfetched {
		delete(r.answers, sent)
	}
}

// discardUnlessPending reports whether a request has no answer yet. If the answer has arrived, it is deleted.
func (r *Requests) discardUnlessPending(sent request) (pending bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := r.answers[sent]
	if found != nil && found.arrived {
		delete(r.answers, sent)
	}
	return found != nil && !found.arrived
}
