package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const leaseNamespace = "kiln-launchers"

// fakeLeaseAPI is an API server of Leases that may be unavailable or refuse requests. It and all launchers use the clock of a test's synctest bubble.
type fakeLeaseAPI struct {
	*testing.T
	*fake.Clientset
	err atomic.Pointer[error]
}

func newFakeLeaseAPI(t *testing.T, objects ...runtime.Object) *fakeLeaseAPI {
	r := &fakeLeaseAPI{T: t, Clientset: fake.NewSimpleClientset(objects...)}
	r.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := *r.err.Load()
		return err != nil, nil, err
	})
	r.setError(nil)
	return r
}

// setError makes every request fail with err; nil makes requests succeed.
func (r *fakeLeaseAPI) setError(err error) { r.err.Store(&err) }

// testLauncher is the Lease of one launcher process, and the state of its work.
type testLauncher struct {
	*Lease
	working atomic.Bool // now
	err     chan error
	stop    context.CancelFunc
}

func (r *fakeLeaseAPI) startLauncher(node string) *testLauncher {
	ctx, stop := context.WithCancel(r.Context())
	l := &testLauncher{Lease: newLease(r.CoordinationV1(), leaseNamespace, node), err: make(chan error, 1), stop: stop}
	go func() {
		l.err <- l.During(ctx, func(ctx context.Context) error {
			l.working.Store(true)
			<-ctx.Done()
			l.working.Store(false)
			return nil
		})
	}()
	return l
}

// stateAfter lets time pass. It returns whether the launcher's work runs, and whether the Lease is held.
func (l *testLauncher) stateAfter(d time.Duration) (works, held bool) {
	time.Sleep(d)
	synctest.Wait()
	return l.working.Load(), l.Held()
}

// waitForEnd waits for the end of a launcher and returns its error.
func (l *testLauncher) waitForEnd(r *fakeLeaseAPI) error {
	r.Helper()
	select {
	case err := <-l.err:
		return err
	case <-time.After(time.Hour):
		r.Fatal("the launcher has not ended")
		return nil
	}
}

func TestSecondLauncherOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeLeaseAPI(t)
		first, other := r.startLauncher("a"), r.startLauncher("b")
		if works, held := first.stateAfter(time.Second); !works || !held {
			t.Fatalf("the first launcher works %t, holds %t", works, held)
		}
		second := r.startLauncher("a")
		err := second.waitForEnd(r)
		if err == nil || !strings.Contains(err.Error(), "'"+first.Identity()+"' holds Lease kiln-launchers/a") || !strings.Contains(err.Error(), "--node") {
			t.Errorf("the second launcher ends with %v, want an error that names the first", err)
		}
		if works, held := first.stateAfter(time.Minute); !works || !held {
			t.Errorf("the first launcher works %t, holds %t after the second one came", works, held)
		}
		if !other.working.Load() || !other.Held() {
			t.Error("the launcher of another name is disturbed")
		}
		first.stop()
		if err := first.waitForEnd(r); err != nil {
			t.Errorf("the end of the first: %v", err)
		}
		next := r.startLauncher("a")
		if works, held := next.stateAfter(time.Second); !works || !held {
			t.Error("a launcher that ended in order keeps the next one waiting")
		}
		next.stop()
		other.stop()
		if err := errors.Join(next.waitForEnd(r), other.waitForEnd(r)); err != nil {
			t.Error(err)
		}
	})
}

// TestLauncherWasKilled: a launcher that starts after a crash of its machine waits until the Lease has expired, whatever time the old holder wrote.
func TestLauncherWasKilled(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right clocks": 0, "the other's was ahead": 24 * time.Hour, "the other's was behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeLeaseAPI(t, heldLease("killed", time.Now().Add(ahead)))
				l := r.startLauncher("a")
				if works, _ := l.stateAfter(leaseDuration - time.Second); works {
					t.Error("it works while the killed one might")
				}
				if works, held := l.stateAfter(time.Minute); !works || !held {
					t.Errorf("it works %t, holds %t long after the Lease has run out", works, held)
				}
				l.stop()
				if err := l.waitForEnd(r); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAPIServerIsAway: a launcher whose Lease cannot be renewed continues to run, but stops acting in time. It acts again when the Lease is renewed.
func TestAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeLeaseAPI(t)
		l := r.startLauncher("a")
		l.stateAfter(time.Minute)
		r.setError(errors.New("connection refused"))
		if works, held := l.stateAfter(renewDeadline); !works || held {
			t.Errorf("%s after the last renewal it works %t, acts %t", renewDeadline, works, held)
		}
		if (&Node{Lease: l.Lease}).holdsLease() {
			t.Error("the node acts without its Lease")
		}
		if works, held := l.stateAfter(time.Hour); !works || held {
			t.Errorf("an hour later it works %t, acts %t", works, held)
		}
		r.setError(nil)
		if works, held := l.stateAfter(time.Minute); !works || !held {
			t.Errorf("with the API server back it works %t, acts %t", works, held)
		}
		r.setError(errors.New("connection refused"))
		l.stop()
		if err := l.waitForEnd(r); err != nil {
			t.Errorf("its end while the API server is away: %v", err)
		}
	})
}

// TestNameTakenMeanwhile: a launcher that was cut off ends when another launcher with its name is alive.
func TestNameTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeLeaseAPI(t)
		l := r.startLauncher("a")
		l.stateAfter(time.Minute)
		r.setError(errors.New("no route to host"))
		l.stateAfter(time.Minute)
		if err := r.Tracker().Update(leaseResource, heldLease("other", time.Now()), leaseNamespace); err != nil {
			t.Fatal(err)
		}
		r.setError(nil)
		if works, held := l.stateAfter(3 * retryPeriod); !works || held { // it has looked by then, and the Lease has not run out
			t.Errorf("it works %t, acts %t while it is not known whether the other one lives", works, held)
		}
		if err := r.Tracker().Update(leaseResource, heldLease("other", time.Now()), leaseNamespace); err != nil {
			t.Fatal(err)
		}
		if err := l.waitForEnd(r); err == nil || !strings.Contains(err.Error(), "'other' holds") {
			t.Errorf("it ends with %v, want an error that names the other one", err)
		}
		if l.working.Load() {
			t.Error("its work continues")
		}
	})
}

var leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// heldLease returns the Lease of a launcher that renewed it at a time, by the launcher's clock.
func heldLease(holder string, at time.Time) *coordination.Lease {
	seconds, written := int32(leaseDuration/time.Second), metav1.NewMicroTime(at)
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: "a"},
		Spec: coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &written, RenewTime: &written}}
}

// TestLeaseIsNotTheirs: a permanent error ends the launcher at once, with an error that names the remedy.
func TestLeaseIsNotTheirs(t *testing.T) {
	for _, err := range []error{
		apierrors.NewForbidden(leaseResource.GroupResource(), "a", errors.New("no")),
		apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, leaseNamespace),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeLeaseAPI(t)
			r.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			if got := r.startLauncher("a").waitForEnd(r); !errors.Is(got, err) || !strings.Contains(got.Error(), "apply manifests/rbac") {
				t.Errorf("it ends with %v, want %v and what to do", got, err)
			}
		})
	}
}

func TestLeaseNames(t *testing.T) {
	seen := map[string]bool{}
	for _, node := range []string{"a", "a.example.com", "DESKTOP-1", "desktop_1", "", strings.Repeat("a", 300), "A", "a b"} {
		name := leaseName(node)
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 || seen[name] {
			t.Errorf("'%s': Lease '%s': %v, already there: %t", node, name, wrong, seen[name])
		}
		seen[name] = true
	}
	if leaseName("a.example.com") != "a.example.com" {
		t.Error("a name that an object can have is not its Lease's")
	}
}
