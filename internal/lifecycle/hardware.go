package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// hardwareReconciler assigns a GuestHardware to each VMI that a launcher has claimed, counts its boots, and deletes the GuestHardware after its guest. The
// launcher writes spec.hardware once for each start, and starts no guest before the assignment. So every guest that has run has a record, whichever process
// dies.
type hardwareReconciler struct {
	client client.Client
	// live reads from the API server: two guests of one name may follow each other faster than the cache is updated.
	live   client.Client
	events events.EventRecorder
	now    func() time.Time
	// frontend returns the FrontendProfile that a VMI starts with, nil without one.
	frontend func(context.Context, *v1.VirtualMachineInstance) (*v1alpha1.Frontend, error)

	settled   settledInputs
	lastBoots lastBootHardware
}

func (r *hardwareReconciler) registerWith(mgr ctrl.Manager) error {
	byName := &handler.EnqueueRequestForObject{}
	return ctrl.NewControllerManagedBy(mgr).Named("guesthardware").
		For(&v1.VirtualMachineInstance{}).Watches(&v1.VirtualMachine{}, byName).
		// Only metadata: a record has several KiB, and is read when a guest starts.
		WatchesMetadata(&v1alpha1.GuestHardware{}, byName).
		WithOptions(controllerOptions).Complete(r)
}

// frontend returns the FrontendProfile of the configuration that a VMI is pinned to, or that of the current configuration if the VMI is not pinned. The
// controller writes the values of the revision into the record, so that the launcher needs no right to read revisions, and a later edit of an annotation has
// no effect.
func (c *Controller) frontend(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.Frontend, error) {
	defaults, err := c.resolver().Configuration(ctx, vmi)
	if err != nil || defaults == nil {
		return nil, err
	}
	return defaults.Frontend, nil
}

// Reconcile brings the GuestHardware of a name one step closer to its VM and VMI.
func (r *hardwareReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.reconcile(ctx, request.NamespacedName)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}

func (r *hardwareReconciler) reconcile(ctx context.Context, key types.NamespacedName) error {
	o, err := r.readVMAndVMI(ctx, key)
	if err != nil {
		return err
	}
	in, err := r.readInputs(ctx, key, o)
	if err != nil || r.settled.has(key, in) {
		return err
	}
	if in.hardware == "" && (o.vmi == nil || !o.launcherMayStart()) {
		// Nothing to assign or to delete: the event of a GuestHardware that the cache does not have yet reconciles the name again.
		r.settled.add(key, hardwareInputs{})
		return nil
	}
	o.hardware, err = Hardware(ctx, r.live, key)
	if err != nil {
		return err
	}
	switch {
	case o.vmi != nil && o.launcherMayStart() && !o.assigned():
		return r.assignHardware(ctx, o)
	case o.bootUncounted():
		return r.countBoot(ctx, o)
	case o.identityEdited():
		return r.updateIdentity(ctx, o)
	case o.hardware != nil && !o.inUse():
		return r.deleteOrphanedHardware(ctx, o)
	}
	r.settled.add(key, in)
	return nil
}

// readVMAndVMI returns the VM and VMI of a name from the cache; nil for one that does not exist.
func (r *hardwareReconciler) readVMAndVMI(ctx context.Context, key types.NamespacedName) (o guestObjects, err error) {
	if o.vm, err = objects.GetOrNil(ctx, r.client, key, &v1.VirtualMachine{}); err != nil {
		return o, err
	}
	o.vmi, err = objects.GetOrNil(ctx, r.client, key, &v1.VirtualMachineInstance{})
	return o, err
}

// Hardware returns the GuestHardware of a name; nil if it does not exist.
func Hardware(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1alpha1.GuestHardware, error) {
	hardware, err := objects.GetOrNil(ctx, reader, key, &v1alpha1.GuestHardware{})
	if err != nil {
		return nil, fmt.Errorf("reading GuestHardware '%s': %w", key.Name, err)
	}
	return hardware, nil
}

// hardwareInputs contains everything that a reconcile depends on.
type hardwareInputs struct {
	vm, vmi types.UID
	// identity is the guest's seed, node its status.nodeName, and hardware the resourceVersion of the GuestHardware.
	identity, node, hardware string
	hasRun, launcherMayStart bool
}

// readInputs returns the inputs of a reconcile. It reads the metadata of the GuestHardware from the cache.
func (r *hardwareReconciler) readInputs(ctx context.Context, key types.NamespacedName, o guestObjects) (in hardwareInputs, err error) {
	if guest, found := o.hardwareGuest(); found {
		in.identity = guest.Identity
	}
	if o.vm != nil {
		in.vm = o.vm.UID
	}
	if o.vmi != nil {
		in.vmi, in.node, in.hasRun, in.launcherMayStart = o.vmi.UID, o.vmi.Status.NodeName, hasRun(o.vmi), o.launcherMayStart()
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestHardware"))
	err = r.client.Get(ctx, key, metadata)
	in.hardware = metadata.ResourceVersion
	return in, client.IgnoreNotFound(err)
}
