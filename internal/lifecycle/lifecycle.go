// Package lifecycle turns VirtualMachines into VirtualMachineInstances. It creates the VMI that a run strategy asks for, with its pins, identity
// and recorded hardware, and deletes it when the strategy asks for that. It never changes the spec of a VMI that exists.
package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownwrite"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Controller reconciles VMs.
type Controller struct {
	// Client reads from informers and writes to the API server.
	Client client.Client
	// Live reads from the API server, where a cache that lags behind would do harm.
	Live     client.Client
	Resolver resolve.Resolver
	// Configuration returns the configuration in force, to which VMs are pinned. If it is nil, VMs are pinned to none.
	Configuration func() config.Cluster
	Events        events.EventRecorder
	Now           func() time.Time
	// Finalizers are those of new VMIs: of who ends their guests.
	Finalizers []string
	// Beside leaves VMIs to KubeVirt: VMs get their identity and pins, and status references to what they are pinned to. See beside.go.
	Beside bool

	unpinned unpinnedVMs
	written  ownwrite.Memo
	compared comparisons
	// outages are the VMs that a webhook keeps from a step.
	outages outage.Waiting
}

// workers is the number of objects that each controller reconciles at the same time. A reconcile is a few calls of the API server in a row:
// with one worker, the VMs of a boot storm would wait for each other's calls.
const workers = 8

// options are those of the controllers of VMs, their VMIs and their hardware records: namespaces take turns.
var options = controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New}

// conflictRetry is the time after which a write that lost a race is repeated. The other write arrives as an event of its own, but may have
// arrived already.
const conflictRetry = 50 * time.Millisecond

// cacheRetry is the time after which a VM is looked at again whose VMI exists and is not in the cache.
const cacheRetry = time.Second

// Register adds the controllers of VMs, VMIs and GuestHardware to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	machines := ctrl.NewControllerManagedBy(mgr).Named("virtualmachine").For(&v1.VirtualMachine{}).WithOptions(options)
	if err := c.watch(machines, mgr.GetRESTMapper()); err != nil {
		return err
	}
	retried, err := c.outages.Source(mgr, &handler.EnqueueRequestForObject{})
	if err != nil {
		return err
	}
	machines.WatchesRawSource(retried)
	if c.Beside {
		keeper := &recordKeeper{client: c.Client, live: c.Live, events: c.Events}
		return errors.Join(machines.Complete(c), keeper.register(mgr))
	}
	toVM := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1.VirtualMachine{}, handler.OnlyControllerOwner())
	machines.Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(c.refusedIn), builder.WithPredicates(GivesRoom))
	if err := machines.Watches(&v1.VirtualMachineInstance{}, toVM).Complete(c); err != nil {
		return err
	}
	records := &hardwareReconciler{client: c.Client, live: c.Live, events: c.Events, now: c.Now, frontend: c.frontend}
	if err := records.register(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("virtualmachineinstance").
		For(&v1.VirtualMachineInstance{}).
		WithOptions(options).Complete(&phaseReconciler{client: c.Client, now: c.Now})
}

// Counts adds to a manager what counts the objects of its cache, for metrics.
func (c *Controller) Counts(mgr ctrl.Manager) (*Counts, error) {
	counts := &Counts{cache: mgr.GetCache(), unpinned: &c.unpinned}
	return counts, mgr.Add(counts)
}

// Reconcile brings one VM and its VMI one step closer to the VM's spec. It returns a conflict as a request to try again, not as an error:
// errors are logged and counted, and a lost race is neither Kiln's nor the user's fault.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := c.reconcile(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if ownwrite.Gone(err, request.Name, "virtualmachines") {
		return ctrl.Result{}, nil
	}
	return result, err
}

// reconcile reads VM and VMI, pins the VM, compares both if the VM was edited, acts on its run strategy, and writes its status. A VM that is being
// deleted gets its status alone: the garbage collector deletes its VMI.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	s, err := c.read(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s == nil {
		c.unpinned.remove(key)
		c.written.Forget(key)
		c.compared.forget(key)
		c.outages.Forget(key)
		return ctrl.Result{}, nil
	}
	if c.written.Ahead(s.vm, s.now) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if s.vm.DeletionTimestamp == nil {
		if err := c.pinImplicit(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
		c.pinMatchers(ctx, s)
	}
	if c.Beside {
		c.noteOutage(key, s)
		return c.besideKubeVirt(ctx, s)
	}
	if s.vm.DeletionTimestamp == nil {
		c.compare(ctx, s)
		c.act(ctx, s)
	}
	c.noteOutage(key, s)
	err = c.report(ctx, s)
	for _, done := range s.done { // also if the status could not be written: it was done
		c.event(s, done.kind, done.Reason, done.Message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, s.retryable
}

// noteOutage notes the webhook that keeps a VM from a step. A VM that has its VMI, or that something else keeps from it, shows that the webhook answers. A VM
// that wants nothing shows nothing.
func (c *Controller) noteOutage(key types.NamespacedName, s *state) {
	if s.awaitedWebhook == "" && s.vmi == nil && s.failure == nil {
		c.outages.Forget(key)
		return
	}
	c.outages.Note(key, s.awaitedWebhook)
}

// read returns the VM of a name with its VMI; nil if the VM does not exist. Beside KubeVirt the VMI is not read.
func (c *Controller) read(ctx context.Context, key types.NamespacedName) (*state, error) {
	var vmi *v1.VirtualMachineInstance
	if !c.Beside {
		var err error
		if vmi, err = getVMI(ctx, c.Client, key); err != nil {
			return nil, err
		}
	}
	vm, err := getVM(ctx, c.Client, key)
	if vm == nil || err != nil {
		return nil, err
	}
	return newState(vm, vmi, c.Now()), nil
}

// readWhole replaces the VM of a state, which is one of the cache, by that of the API server. It fails with a conflict if they differ in version: this
// reconcile has judged the one of the cache, and the event of the other one is on its way.
func (c *Controller) readWhole(ctx context.Context, s *state) error {
	if s.whole {
		return nil
	}
	key := client.ObjectKeyFromObject(s.vm)
	vm, err := getVM(ctx, c.Live, key)
	if err != nil {
		return err
	}
	if vm == nil || vm.UID != s.vm.UID || vm.ResourceVersion != s.vm.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Group: v1.GroupVersion.Group, Resource: "virtualmachines"}, key.Name,
			errors.New("it has changed since it was cached"))
	}
	s.setVM(vm)
	return nil
}

// getVM returns a VM, nil if it does not exist.
func getVM(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1.VirtualMachine, error) {
	vm := &v1.VirtualMachine{}
	if err := reader.Get(ctx, key, vm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vm, nil
}

// getVMI returns a VMI, nil if it does not exist.
func getVMI(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1.VirtualMachineInstance, error) {
	vmi := &v1.VirtualMachineInstance{}
	if err := reader.Get(ctx, key, vmi); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vmi, nil
}

// write stores revisions by the API server itself: a cache may not have a revision that another replica has just created.
func (c *Controller) write(ctx context.Context, drafts ...revision.Draft) error {
	return revision.Write(ctx, c.Live, drafts...)
}
