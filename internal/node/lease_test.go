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

const leasesOf = "kiln-launchers"

// registry is an API server of Leases that may be away, or refuse. Its clock, and that of all launchers, is a test's.
type registry struct {
	*testing.T
	*fake.Clientset
	fails atomic.Pointer[error]
}

func newRegistry(t *testing.T, objects ...runtime.Object) *registry {
	r := &registry{T: t, Clientset: fake.NewSimpleClientset(objects...)}
	r.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := *r.fails.Load()
		return err != nil, nil, err
	})
	r.answer(nil)
	return r
}

// answer has every request fail with err; nil lets them pass.
func (r *registry) answer(err error) { r.fails.Store(&err) }

// launcher is one process.
type launcher struct {
	*Lease
	works atomic.Bool // now
	err   chan error
	stop  context.CancelFunc
}

func (r *registry) launch(node string) *launcher {
	ctx, stop := context.WithCancel(r.Context())
	l := &launcher{Lease: leaseOf(r.CoordinationV1(), leasesOf, node), err: make(chan error, 1), stop: stop}
	go func() {
		l.err <- l.During(ctx, func(ctx context.Context) error {
			l.works.Store(true)
			<-ctx.Done()
			l.works.Store(false)
			return nil
		})
	}()
	return l
}

// after lets time pass, and returns whether the launcher works and whether it may act.
func (l *launcher) after(d time.Duration) (works, held bool) {
	time.Sleep(d)
	synctest.Wait()
	return l.works.Load(), l.Held()
}

// ended waits for the end of a launcher and gives its error.
func (l *launcher) ended(r *registry) error {
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
		r := newRegistry(t)
		first, other := r.launch("a"), r.launch("b")
		if works, held := first.after(time.Second); !works || !held {
			t.Fatalf("the first launcher works %t, holds %t", works, held)
		}
		second := r.launch("a")
		err := second.ended(r)
		if err == nil || !strings.Contains(err.Error(), "'"+first.Identity()+"' holds Lease kiln-launchers/a") || !strings.Contains(err.Error(), "--node") {
			t.Errorf("the second launcher ends with %v, want an error that names the first", err)
		}
		if works, held := first.after(time.Minute); !works || !held {
			t.Errorf("the first launcher works %t, holds %t after the second one came", works, held)
		}
		if !other.works.Load() || !other.Held() {
			t.Error("the launcher of another name is disturbed")
		}
		first.stop()
		if err := first.ended(r); err != nil {
			t.Errorf("the end of the first: %v", err)
		}
		next := r.launch("a")
		if works, held := next.after(time.Second); !works || !held {
			t.Error("a launcher that ended in order keeps the next one waiting")
		}
		next.stop()
		other.stop()
		if err := errors.Join(next.ended(r), other.ended(r)); err != nil {
			t.Error(err)
		}
	})
}

// TestLauncherWasKilled: a launcher that starts after a crash of its machine waits until the Lease has run out, whatever time its holder wrote.
func TestLauncherWasKilled(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right clocks": 0, "the other's was ahead": 24 * time.Hour, "the other's was behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry(t, leaseHeld("killed", time.Now().Add(ahead)))
				l := r.launch("a")
				if works, _ := l.after(leaseDuration - time.Second); works {
					t.Error("it works while the killed one might")
				}
				if works, held := l.after(time.Minute); !works || !held {
					t.Errorf("it works %t, holds %t long after the Lease has run out", works, held)
				}
				l.stop()
				if err := l.ended(r); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAPIServerIsAway: a launcher whose Lease cannot be renewed goes on, acts on nothing in time, and does so again when the Lease is renewed.
func TestAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		l := r.launch("a")
		l.after(time.Minute)
		r.answer(errors.New("connection refused"))
		if works, held := l.after(renewDeadline); !works || held {
			t.Errorf("%s after the last renewal it works %t, acts %t", renewDeadline, works, held)
		}
		if (&Node{Lease: l.Lease}).holdsLease() {
			t.Error("the node acts without its Lease")
		}
		if works, held := l.after(time.Hour); !works || held {
			t.Errorf("an hour later it works %t, acts %t", works, held)
		}
		r.answer(nil)
		if works, held := l.after(time.Minute); !works || !held {
			t.Errorf("with the API server back it works %t, acts %t", works, held)
		}
		r.answer(errors.New("connection refused"))
		l.stop()
		if err := l.ended(r); err != nil {
			t.Errorf("its end while the API server is away: %v", err)
		}
	})
}

// TestNameTakenMeanwhile: a launcher that was cut off finds that another one of its name lives, and ends.
func TestNameTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		l := r.launch("a")
		l.after(time.Minute)
		r.answer(errors.New("no route to host"))
		l.after(time.Minute)
		if err := r.Tracker().Update(leases, leaseHeld("other", time.Now()), leasesOf); err != nil {
			t.Fatal(err)
		}
		r.answer(nil)
		if works, held := l.after(3 * retryPeriod); !works || held { // it has looked by then, and the Lease has not run out
			t.Errorf("it works %t, acts %t while it is not known whether the other one lives", works, held)
		}
		if err := r.Tracker().Update(leases, leaseHeld("other", time.Now()), leasesOf); err != nil {
			t.Fatal(err)
		}
		if err := l.ended(r); err == nil || !strings.Contains(err.Error(), "'other' holds") {
			t.Errorf("it ends with %v, want an error that names the other one", err)
		}
		if l.works.Load() {
			t.Error("its work goes on")
		}
	})
}

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// leaseHeld is what a launcher leaves that wrote it at a time, by its own clock.
func leaseHeld(holder string, at time.Time) *coordination.Lease {
	seconds, written := int32(leaseDuration/time.Second), metav1.NewMicroTime(at)
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leasesOf, Name: "a"},
		Spec: coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &written, RenewTime: &written}}
}

// TestLeaseIsNotTheirs: an error that retrying cannot cure ends the launcher at once, with the remedy.
func TestLeaseIsNotTheirs(t *testing.T) {
	for _, err := range []error{
		apierrors.NewForbidden(leases.GroupResource(), "a", errors.New("no")),
		apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, leasesOf),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(t)
			r.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
			if got := r.launch("a").ended(r); !errors.Is(got, err) || !strings.Contains(got.Error(), "apply manifests/rbac") {
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
