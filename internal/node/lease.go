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

// A VMI is claimed by the name of a machine. Two launchers with the same name would both act on it: one would report the end of a domain that the other runs,
// and a second copy would start on the same disks. Therefore a launcher acts only while it holds the Lease of its name.
//
// The holder identity contains a UUID of the process, because clones of a machine have the same host name and machine ID. A launcher that finds another holder
// waits. If the other holder renews the Lease, it is alive, and this launcher ends with an error. Otherwise the other holder was killed, and the Lease expires.

const (
	// leaseDuration is the time after which a Lease that is not renewed expires.
	leaseDuration = 30 * time.Second
	// renewDeadline is the time after the last renewal at which a launcher stops acting. A step that began before may take the rest of leaseDuration.
	renewDeadline = 20 * time.Second
	// retryPeriod is the time between two renewals, or two attempts.
	retryPeriod = 5 * time.Second
)

// Lease is the Lease of a launcher's name, watched while client-go acquires and renews it.
type Lease struct {
	resourcelock.Interface
	log logr.Logger
	// acquired is closed when this process first holds the Lease, and workDone when its work has returned.
	acquired, workDone chan struct{}
	endWork            context.CancelCauseFunc

	mutex sync.Mutex
	// renewed is when the last successful renewal was requested, by the monotonic clock; zero if this process does not hold the Lease.
	renewed time.Time
	// lastSeen is the Lease as last read.
	lastSeen resourcelock.LeaderElectionRecord
}

// NewLease returns the Lease of a node's name in a namespace. It is not acquired yet.
func NewLease(access *rest.Config, namespace, node string) (*Lease, error) {
	access = rest.CopyConfig(access)
	access.Timeout = renewDeadline / 2 // after a request that hangs, there must be time for another one
	client, err := coordinationv1.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	return newLease(client, namespace, node), nil
}

func newLease(client coordinationv1.LeasesGetter, namespace, node string) *Lease {
	hostname, _ := os.Hostname() // for people; the UUID identifies the process
	return &Lease{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName(node)}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		},
		log:      ctrl.Log.WithName("lease").WithValues("node", node),
		acquired: make(chan struct{}), workDone: make(chan struct{}),
	}
}

// leaseName returns the node's name if it is a valid object name, and otherwise its hash: host names may be longer, and contain capitals.
func leaseName(node string) string {
	if len(validation.IsDNS1123Subdomain(node)) == 0 {
		return node
	}
	return fmt.Sprintf("node-%x", sha256.Sum256([]byte(node)))
}

// Held reports whether this process may act for its name. It returns false from renewDeadline after the last renewal: domains continue to run, but no launcher
// acts on them until the Lease is renewed.
func (l *Lease) Held() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < renewDeadline
}

// holdsLease reports whether the node may act on domains.
func (n *Node) holdsLease() bool { return n.Lease == nil || n.Lease.Held() }

var errLeaseLost = errors.New("the Lease of this launcher's name has not been renewed")

// During runs the work when the Lease is held, and releases the Lease when the work returns. If another launcher with the same name is alive, During ends the
// work and returns an error. A Lease that cannot be renewed does not end the work: see Held.
func (l *Lease) During(ctx context.Context, work func(context.Context) error) error {
	working, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	l.endWork = refuse
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.keepHolding(ctrl.LoggerInto(holding, l.log))
	}()
	var err error
	select {
	case <-l.acquired:
		err = work(working)
	case <-working.Done():
	}
	close(l.workDone)
	release()
	<-gone
	if cause := (*fatalLeaseError)(nil); errors.As(context.Cause(working), &cause) {
		return cause
	}
	return err
}

// keepHolding acquires and renews the Lease until the context ends. It acquires a lost Lease again.
func (l *Lease) keepHolding(ctx context.Context) {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			l.endWork(&fatalLeaseError{err})
			return
		}
		elector.Run(ctx)
		if ctx.Err() == nil {
			l.log.Info("the Lease could not be renewed: domains go on, but this launcher does not act on them until the Lease is renewed", "lease", l.Describe())
		}
	}
}

// fatalLeaseError ends this launcher: another one with its name is alive, or the Lease can never be acquired.
type fatalLeaseError struct{ error }

func (r *fatalLeaseError) Unwrap() error { return r.error }

// Get reads the Lease and observes its holder.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.observeHolder(*record)
	}
	return record, raw, l.endIfPermanent(err)
}

// observeHolder ends this launcher if another holder has renewed the Lease since the last read.
func (l *Lease) observeHolder(now resourcelock.LeaderElectionRecord) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	was := l.lastSeen
	if l.lastSeen = now; now.HolderIdentity == "" || now.HolderIdentity == l.Identity() {
		return
	}
	switch {
	case now.HolderIdentity != was.HolderIdentity:
		l.log.Info("waiting: another launcher of this name holds the Lease or was killed recently",
			"lease", l.Describe(), "holder", now.HolderIdentity)
	case !now.RenewTime.Equal(&was.RenewTime):
		l.endWork(&fatalLeaseError{fmt.Errorf("another launcher of this name is alive: '%s' holds Lease %s and renewed it at %s; "+
			"stop it, or give this machine another name with --node",
			now.HolderIdentity, l.Describe(), now.RenewTime.UTC().Format(time.RFC3339))})
	}
}

// Create writes the Lease for the first time.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	requested := time.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.setRenewed(requested)
	}
	return l.endIfPermanent(err)
}

// Update renews the Lease, or releases it.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	requested := time.Now()
	if record.HolderIdentity == "" {
		select {
		case <-l.workDone:
		default:
			return errors.New("the last step may still run: the Lease is not released but expires")
		}
		l.setRenewed(time.Time{})
		return l.Interface.Update(ctx, record)
	}
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.setRenewed(requested)
	}
	return l.endIfPermanent(err)
}

// setRenewed records the time of a renewal. The zero time means that the Lease is released.
func (l *Lease) setRenewed(requested time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.renewed = requested; requested.IsZero() {
		return
	}
	select {
	case <-l.acquired:
	default:
		close(l.acquired)
	}
}

// endIfPermanent ends a launcher that has never held its Lease, if an error is permanent: the launcher lacks a right, or the namespace does not exist. It
// returns err.
func (l *Lease) endIfPermanent(err error) error {
	select {
	case <-l.acquired:
		return err
	default:
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) && missingResource(err) == "namespaces" {
		l.endWork(&fatalLeaseError{fmt.Errorf("cannot acquire Lease %s: %w; apply manifests/rbac, or name another namespace with --lease-namespace",
			l.Describe(), err)})
	}
	return err
}

// missingResource returns the resource that, according to err, the API server did not find; empty if err names none.
func missingResource(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Kind
	}
	return ""
}
