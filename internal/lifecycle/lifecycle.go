// Package lifecycle turns VirtualMachines into VirtualMachineInstances. It creates the VMI that a run strategy requires, with its pins, identity
// and recorded hardware, and deletes it when the run strategy requires that. It only changes the spec of an existing VMI by live updates (live.go).
package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/fairqueue"
	"github.com/kilnvm/kiln/internal/lifecycle/guesthardware"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownwrite"
	"github.com/kilnvm/kiln/internal/placeable/observer"
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
	// Live reads from the API server, if an outdated cache would do harm.
	Live     client.Client
	Resolver resolve.Resolver
	// Configuration returns the current configuration, to which VMs are pinned. If it is nil, VMs are pinned to none.
	Configuration func() config.Cluster
	Events        events.EventRecorder
	Now           func() time.Time
	// Finalizers are set on new VMIs. The component that ends their guests removes them.
	Finalizers []string
	// KubeVirt is set if KubeVirt creates the VMIs: then VMs get only identity, pins, and status references to the revisions that they are pinned to.
	KubeVirt KubeVirt
	// Namespaces are the namespaces whose VMs are reconciled; nil for all.
	Namespaces *enforcement.Namespaces
	// MakesDataVolumes is set if guests run in pods, which use claims: then DataVolumes are made of spec.dataVolumeTemplates. A bare machine uses none.
	MakesDataVolumes bool
	// Placement judges whether the cluster could run the guests of VMs; nil if they do not run in Kiln's pods.
	Placement *observer.Observer

	unpinned    unpinnedVMs
	ownWrites   ownwrite.Memo
	comparisons comparisons
	// lostPinsReported has the UIDs of the VMs whose lost pins were reported, by their names.
	lostPinsReported sync.Map
	// waitingForWebhooks are the VMs that wait for a webhook that does not answer.
	waitingForWebhooks outage.Waiting
	awaitedVolumes     awaitedVolumes
	// watchesDataVolumes is set if DataVolumes are in the cache.
	watchesDataVolumes bool
}

// workers is the number of objects that each controller reconciles at the same time. A reconcile is a few calls of the API server in a row:
// with one worker, the VMs of a boot storm would wait for each other's calls.
const workers = 8

// controllerOptions apply to the controllers of VMs, VMIs and hardware records: namespaces take turns.
var controllerOptions = controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New}

// conflictRetry is the time after which a reconcile with a conflict is repeated. The event of the other write may have arrived already.
const conflictRetry = 50 * time.Millisecond

// cacheRetry is the time after which a VM is reconciled again if its VMI exists and the cache does not have it yet.
const cacheRetry = time.Second

// Register adds the controllers of VMs, VMIs and GuestHardware to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	vms := ctrl.NewControllerManagedBy(mgr).Named("virtualmachine").For(&v1.VirtualMachine{}).WithOptions(controllerOptions)
	if err := c.watchPinSources(vms, mgr.GetRESTMapper()); err != nil {
		return err
	}
	retried, err := c.waitingForWebhooks.Source(mgr, &handler.EnqueueRequestForObject{})
	if err != nil {
		return err
	}
	vms.WatchesRawSource(retried)
	if c.Namespaces != nil {
		c.Namespaces.Watch(vms, c.Client)
	}
	if c.KubeVirt != nil {
		return errors.Join(vms.Complete(c), c.KubeVirt.Register(mgr))
	}
	toVM := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1.VirtualMachine{}, handler.OnlyControllerOwner())
	if c.MakesDataVolumes {
		if err := watchVolumes(c, vms, mgr); err != nil {
			return err
		}
	}
	if c.Placement != nil {
		changed, err := c.Placement.Source(mgr)
		if err != nil {
			return err
		}
		vms.WatchesRawSource(changed)
	}
	vms.Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(c.refusedVMs), builder.WithPredicates(QuotaFreed))
	if err := vms.Watches(&v1.VirtualMachineInstance{}, toVM).Complete(c); err != nil {
		return err
	}
	hardware := &guesthardware.Reconciler{Client: c.Client, Live: c.Live, Events: c.Events, Now: c.Now, Frontend: c.pinnedFrontend}
	if err := hardware.Register(mgr, controllerOptions); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("virtualmachineinstance").
		For(&v1.VirtualMachineInstance{}).
		WithOptions(controllerOptions).Complete(&phaseReconciler{client: c.Client, now: c.Now})
}

// Counts adds to a manager a collector that counts the objects of the manager's cache, for metrics.
func (c *Controller) Counts(mgr ctrl.Manager) (*Counts, error) {
	counts := &Counts{cache: mgr.GetCache(), unpinned: &c.unpinned}
	return counts, mgr.Add(counts)
}

// Reconcile brings one VM and its VMI one step closer to the VM's spec. It returns a conflict as a request to try again and not as an error, because errors
// are logged and counted.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := c.reconcileVM(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if ownwrite.Gone(err, request.Name, "virtualmachines") {
		return ctrl.Result{}, nil
	}
	return result, err
}

// reconcileVM reads VM and VMI, pins the VM, compares both if the VM was edited, makes its DataVolumes, applies its run strategy, and writes its status. A VM
// that is being deleted only gets its status: the garbage collector deletes its VMI and its DataVolumes.
func (c *Controller) reconcileVM(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	s, err := c.readState(ctx, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s == nil {
		c.unpinned.remove(key)
		c.ownWrites.Forget(key)
		c.comparisons.forget(key)
		c.lostPinsReported.Delete(key)
		c.waitingForWebhooks.Forget(key)
		c.awaitedVolumes.set(key, nil)
		if c.Placement != nil {
			c.Placement.Forget(key)
		}
		return ctrl.Result{}, nil
	}
	if c.ownWrites.Ahead(s.vm, s.now) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	if s.vm.DeletionTimestamp == nil {
		if err := c.completePins(ctx, s); err != nil {
			return ctrl.Result{}, err
		}
		c.pinMatchers(ctx, s)
	}
	if c.KubeVirt != nil {
		c.noteOutage(key, s)
		c.reportLostPins(key, s)
		return c.finishForKubeVirt(ctx, s)
	}
	if s.vm.DeletionTimestamp == nil {
		c.findPendingEdit(ctx, s)
		volumeMaker{c, s}.makeAll(ctx)
		c.applyRunStrategy(ctx, s)
		c.noteWithoutEffectOfNew(ctx, s)
		s.judgePlacement(ctx, c)
	}
	c.noteOutage(key, s)
	err = c.writeStatus(ctx, s)
	for _, done := range s.vmiEvents { // also if the status could not be written: the VMI was created or deleted
		c.recordEvent(s, done.eventType, done.Reason, done.Message)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, s.retryable
}

// noteOutage notes which webhook the VM waits for, or that it waits for none. It waits for none if it has its VMI, or if something else keeps it from having
// one: then the webhook that it waited for has answered. A VM that should have no VMI says nothing about a webhook.
func (c *Controller) noteOutage(key types.NamespacedName, s *state) {
	if s.awaitedWebhook == "" && s.vmi == nil && s.failure == nil {
		c.waitingForWebhooks.Forget(key)
		return
	}
	c.waitingForWebhooks.Note(key, s.awaitedWebhook)
}

// readState returns the VM of a name with its VMI; nil if the VM does not exist, or its namespace is left alone. It does not read a VMI of KubeVirt.
func (c *Controller) readState(ctx context.Context, key types.NamespacedName) (*state, error) {
	if c.Namespaces != nil {
		if judged, err := c.Namespaces.JudgesNamed(ctx, c.Client, c.Live, key.Namespace); err != nil || !judged {
			return nil, err
		}
	}
	var vmi *v1.VirtualMachineInstance
	if c.KubeVirt == nil {
		var err error
		if vmi, err = objects.GetOrNil(ctx, c.Client, key, &v1.VirtualMachineInstance{}); err != nil {
			return nil, err
		}
	}
	vm, err := objects.GetOrNil(ctx, c.Client, key, &v1.VirtualMachine{})
	if vm == nil || err != nil {
		return nil, err
	}
	return newState(vm, vmi, c.Now()), nil
}

// readFullVM replaces the VM of a state, which was read from the cache, by the VM that the API server returns. It fails with a conflict if their versions
// differ: this reconcile has judged the cached version, and the event of the newer version will reconcile the VM again.
func (c *Controller) readFullVM(ctx context.Context, s *state) error {
	if s.full {
		return nil
	}
	key := client.ObjectKeyFromObject(s.vm)
	vm, err := objects.GetOrNil(ctx, c.Live, key, &v1.VirtualMachine{})
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

// writeRevisions stores revisions through a client without a cache: the cache may lack a revision that another replica has just created.
func (c *Controller) writeRevisions(ctx context.Context, drafts ...revision.Draft) error {
	return revision.Write(ctx, c.Live, drafts...)
}
