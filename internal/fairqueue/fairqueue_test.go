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

// take takes n requests, each of which is done before the next is taken.
func take(t *testing.T, q workqueue.TypedInterface[reconcile.Request], n int) (taken []string) {
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

// TestTurns: a namespace with many requests delays the request of another by one, and the requests of one namespace keep their order.
func TestTurns(t *testing.T) {
	t.Parallel()
	q := New(t.Name(), workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	for i := range 300 {
		q.Add(request("alice", fmt.Sprint(i)))
	}
	q.Add(request("bob", "a"))
	q.Add(request("bob", "b"))
	q.Add(request("bob", "a"))
	q.Add(request("carol", "c"))
	want := []string{"alice/0", "bob/a", "carol/c", "alice/1", "bob/b", "alice/2", "alice/3"}
	if got := take(t, q, len(want)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if q.Len() != 296 {
		t.Errorf("%d requests wait, want 296", q.Len())
	}
	q.AddAfter(request("dave", "d"), time.Nanosecond)
	for begun := time.Now(); q.Len() < 297; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("a request that was delayed does not arrive")
		}
	}
	if got := take(t, q, 2); got[1] != "dave/d" {
		t.Errorf("after a delay: %v", got)
	}
}

// TestNothingIsLost: whatever is pushed is popped once, and no entry stays behind.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	all := newTurns()
	waits := map[reconcile.Request]bool{}
	pop := func() {
		got := all.Pop()
		if !waits[got] {
			t.Fatalf("%s does not wait", got)
		}
		delete(waits, got)
	}
	for range 20_000 {
		one := request(fmt.Sprint("n", rand.IntN(5)), fmt.Sprint(rand.IntN(20)))
		switch {
		case rand.IntN(2) == 0 && !waits[one]: // a work queue pushes no request that waits
			all.Push(one)
			waits[one] = true
		case all.Len() > 0:
			pop()
		}
		if all.Len() != len(waits) {
			t.Fatalf("Len is %d, want %d", all.Len(), len(waits))
		}
	}
	for all.Len() > 0 {
		pop()
	}
	if len(waits) != 0 || len(all.namespaces) != 0 || len(all.waiting) != 0 {
		t.Errorf("left behind: %v, %d namespaces, %d lists", waits, len(all.namespaces), len(all.waiting))
	}
}
