package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func newQueue(t *testing.T) *Queue {
	t.Helper()
	q, ok := New(t.Name(), workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()).(*Queue)
	if !ok {
		t.Fatal("New returns another type")
	}
	t.Cleanup(q.ShutDown)
	return q
}

// next takes n requests, each of which is done before the next is taken.
func next(t *testing.T, q *Queue, n int) (taken []string) {
	t.Helper()
	for range n {
		got, down := q.Get()
		if down {
			t.Fatal("the queue is shut down")
		}
		taken = append(taken, got.String())
		q.Done(got)
	}
	return taken
}

// TestTurns: a namespace with many requests delays the request of another by one.
func TestTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for i := range 300 {
		q.Add(request("alice", fmt.Sprint(i)))
	}
	q.Add(request("bob", "a"))
	q.Add(request("bob", "b"))
	q.Add(request("carol", "c"))
	want := []string{"alice/0", "bob/a", "carol/c", "alice/1", "bob/b", "alice/2", "alice/3"}
	if got := next(t, q, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if q.Len() != 296 {
		t.Errorf("%d requests wait, want 296", q.Len())
	}
}

// TestDeferred: what is deferred comes after the other requests of its namespace, and an event makes it prompt.
func TestDeferred(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for _, name := range []string{"first", "second", "third"} {
		q.AddDeferred(request("alice", name))
	}
	q.Add(request("alice", "start"))
	q.Add(request("alice", "third")) // something asks for it
	q.AddDeferred(request("alice", "start"))
	q.AddDeferred(request("bob", "status"))
	want := []string{"alice/start", "bob/status", "alice/third", "alice/first", "alice/second"}
	if got := next(t, q, len(want)); fmt.Sprint(got) != fmt.Sprint(want) || q.Len() != 0 {
		t.Errorf("got %v, want %v, and %d wait", got, want, q.Len())
	}
	q.AddAfter(request("alice", "first"), time.Millisecond)
	if got := next(t, q, 1); got[0] != "alice/first" {
		t.Errorf("after a delay: %v", got)
	}
}

// TestOvertakenRequestsAreForgotten: a request that is deferred, then asked for and taken leaves no entry, although another request of its namespace is
// deferred all the while.
func TestOvertakenRequestsAreForgotten(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.AddDeferred(request("alice", "waits"))
	for range 100 {
		q.AddDeferred(request("alice", "a"))
		q.Add(request("alice", "a"))
		if got := next(t, q, 1)[0]; got != "alice/a" {
			t.Fatalf("%s is taken", got)
		}
	}
	if own := q.order.waiting["alice"]; own.len() != 1 {
		t.Errorf("%d requests are kept for one that waits", own.len())
	}
}

// TestNothingIsLost: whatever is added while it waits or is done is taken once more, and no entry stays behind.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for range 20_000 {
		one := request(fmt.Sprint("n", rand.IntN(5)), fmt.Sprint(rand.IntN(20)))
		waits := q.Len()
		switch rand.IntN(4) {
		case 0:
			q.Add(one)
		case 1:
			q.AddDeferred(one)
		case 2:
			if waits > 0 {
				got, _ := q.Get()
				if rand.IntN(2) == 0 {
					q.Add(got)
				}
				q.Done(got)
			}
		case 3:
			if waits > 0 {
				next(t, q, 1)
			}
		}
	}
	seen := map[string]bool{}
	for q.Len() > 0 {
		got := next(t, q, 1)[0]
		if seen[got] {
			t.Fatalf("%s is taken twice", got)
		}
		seen[got] = true
	}
	if len(q.order.turns) != 0 || len(q.order.waiting) != 0 || len(q.order.in) != 0 || len(q.order.deferred) != 0 {
		t.Errorf("left behind: %d turns, %d namespaces, %d requests, %d marks", len(q.order.turns), len(q.order.waiting), len(q.order.in), len(q.order.deferred))
	}
}
