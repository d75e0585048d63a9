package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A guest is claimed by the name of a machine. Two launchers of one name would both act on it: one reports the end of a guest that the other
// runs, and a second copy of the guest is started on the same disks. So a launcher acts only while it holds the Lease of its name.
//
// The holder is the process, by a random word: clones of a machine have one host name and one machine ID. A launcher that finds the Lease in the
// hands of another one waits. If the other one renews the Lease, it is alive, and this launcher ends with an error. If it does not, it was
// killed, and the Lease comes free.

const (
	// leaseDuration is for how long a Lease that is not renewed keeps others out.
	leaseDuration = 30 * time.Second
	// renewDeadline is for how long a launcher acts after its last renewal. What is left of leaseDuration is for a step that has begun.
	renewDeadline = 20 * time.Second
	// retryPeriod is the time between two renewals, or two attempts.
	retryPeriod = 5 * time.Second
)

// Lease is the Lease of a launcher's name, watched while client-go acquires and renews it.
type Lease struct {
	resourcelock.Interface
	log logr.Logger
	// granted is closed when the Lease is held for the first time, ended when the work is over.
	granted, ended chan struct{}
	refuse         context.CancelCauseFunc

	mutex sync.Mutex
	// renewed is when the last renewal that was granted was asked for, by the monotonic clock; zero if this process does not hold
	// the Lease.
	renewed time.Time
	// other is what another holder wrote when it was last seen.
	other resourcelock.LeaderElectionRecord
}

// NewLease is the Lease of a node's name in a namespace.
func NewLease(access *rest.Config, namespace, node string) (*Lease, error) {
	access = rest.CopyConfig(access)
	access.Timeout = renewDeadline / 2 // one request that hangs must leave time for another
	client, err := coordinationv1.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	return leaseOf(client, namespace, node), nil
}

func leaseOf(client coordinationv1.LeasesGetter, namespace, node string) *Lease {
	hostname, _ := os.Hostname() // for people; the rest tells processes apart
	return &Lease{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName(node)}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		},
		log:     ctrl.Log.WithName("lease").WithValues("node", node),
		granted: make(chan struct{}), ended: make(chan struct{}),
	}
}

// leaseName is the name itself, where an object can have it: host names may be longer, and have capitals.
func leaseName(node string) string {
	if len(validation.IsDNS1123Subdomain(node)) == 0 {
		return node
	}
	return fmt.Sprintf("node-%x", sha256.Sum256([]byte(node)))
}

// Held tells whether this process may act for its name. It is false from renewDeadline after the last renewal on: guests go on, and nobody
// acts on them until the Lease is renewed.
func (l *Lease) Held() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < renewDeadline
}

// holdsLease reports whether the node may act on guests.
func (n *Node) holdsLease() bool { return n.Lease == nil || n.Lease.Held() }

var errLeaseLost = errors.New("the Lease of this launcher's name has not been renewed")

// During does the work once the Lease is held, and gives the Lease back when the work is over. It ends the work with an error if another
// launcher of the name is alive. A Lease that cannot be renewed does not end the work: see Held.
func (l *Lease) During(ctx context.Context, work func(context.Context) error) error {
	working, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	l.refuse = refuse
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	defer letGo()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.hold(ctrl.LoggerInto(holding, l.log))
	}()
	var err error
	select {
	case <-l.granted:
		err = work(working)
	case <-working.Done():
	}
	close(l.ended)
	letGo()
	<-gone
	if cause := (*rival)(nil); errors.As(context.Cause(working), &cause) {
		return cause
	}
	return err
}

// hold acquires and renews the Lease until the context ends, again and again.
func (l *Lease) hold(ctx context.Context) {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			l.refuse(&rival{err})
			return
		}
		elector.Run(ctx)
		if ctx.Err() == nil {
			l.log.Info("the Lease could not be renewed: guests go on, and are not acted upon until it is", "lease", l.Describe())
		}
	}
}

// rival is why this launcher must not run.
type rival struct{ error }

func (r *rival) Unwrap() error { return r.error }

// Get reads the Lease, and looks who holds it.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.look(*record)
	}
	return record, raw, l.hopeless(err)
}

func (l *Lease) look(now resourcelock.LeaderElectionRecord) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	was := l.other
	if l.other = now; now.HolderIdentity == "" || now.HolderIdentity == l.Identity() {
		return
	}
	switch {
	case now.HolderIdentity != was.HolderIdentity:
		l.log.Info("waiting: another launcher of this name holds the Lease, or was killed a moment ago", "lease", l.Describe(), "holder", now.HolderIdentity)
	case !now.RenewTime.Equal(&was.RenewTime):
		l.refuse(&rival{fmt.Errorf("another launcher of this name is alive: '%s' holds Lease %s and renewed it at %s: stop it, or give this machine a name of its own with --node",
			now.HolderIdentity, l.Describe(), now.RenewTime.UTC().Format(time.RFC3339))})
	}
}

// Create writes the Lease for the first time.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.grant(asked)
	}
	return l.hopeless(err)
}

// Update renews the Lease, or gives it back.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	if record.HolderIdentity == "" {
		select {
		case <-l.ended:
		default:
			return errors.New("a step that has begun may not be over: the Lease is left to expire")
		}
		l.grant(time.Time{})
		return l.Interface.Update(ctx, record)
	}
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.grant(asked)
	}
	return l.hopeless(err)
}

// grant notes a renewal; the zero time that the Lease is given back.
func (l *Lease) grant(asked time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.renewed = asked; asked.IsZero() {
		return
	}
	select {
	case <-l.granted:
	default:
		close(l.granted)
	}
}

// hopeless ends a launcher that has never held its Lease for what will not pass: it lacks a right, or there is no namespace for the Lease.
func (l *Lease) hopeless(err error) error {
	select {
	case <-l.granted:
		return err
	default:
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) && missing(err) == "namespaces" {
		l.refuse(&rival{fmt.Errorf("the Lease %s of this launcher: %w: apply manifests/rbac, or name another namespace with --lease-namespace", l.Describe(), err)})
	}
	return err
}

// missing is the kind of what the API server does not find.
func missing(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Kind
	}
	return ""
}
