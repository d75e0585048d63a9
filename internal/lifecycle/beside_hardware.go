package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// recordKeeper keeps the hardware of guests that KubeVirt runs and whose VMI has annotation kilnvm.io/frontend. Nobody reports it: the hook in the guest's pod
// has no credentials. What it makes of the VMI and its record, render.KubeVirt makes here again. Other guests have no GuestHardware of Kiln's.
type recordKeeper struct {
	// client reads from the cache, which has no specs and of the annotation only that it is there; live reads everything from the API server.
	client, live client.Client
	events       events.EventRecorder
	// done has the VMI of each name that was looked at: its annotation and what it boots with do not change.
	done sync.Map
}

func (r *recordKeeper) register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("kubevirthardware").
		For(&v1.VirtualMachineInstance{}).
		Watches(&v1.VirtualMachine{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r)
}

// Reconcile looks at each VMI once, and removes the hardware of a VM that is gone.
func (r *recordKeeper) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	key := request.NamespacedName
	cached, err := getVMI(ctx, r.client, key)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case cached == nil:
		r.done.Delete(key)
		return ctrl.Result{}, r.forget(ctx, key)
	}
	if _, asks := cached.Annotations[v1alpha1.AnnotationFrontend]; !asks {
		return ctrl.Result{}, nil
	}
	if seen, ok := r.done.Load(key); ok && seen == cached.UID {
		return ctrl.Result{}, nil
	}
	err = r.look(ctx, key, cached.UID)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err == nil:
		r.done.Store(key, cached.UID)
	}
	return ctrl.Result{}, err
}

// look records the hardware that a VMI boots with. It is done before a guest runs and devices are plugged in, unless this process was away.
func (r *recordKeeper) look(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	vm, vmi, err := r.guest(ctx, key)
	if err != nil || vm == nil || vmi == nil || vmi.UID != uid || vmi.IsFinal() || !controls(vm, vmi) {
		return err
	}
	earlier, asked, err := kubevirt.Recorded(vmi)
	if !asked || err != nil { // what it says, the hook says in the log of the pod
		return nil
	}
	made, errs := render.KubeVirt(vmi, earlier)
	if len(errs) > 0 {
		r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s",
			condition.Note("the hardware of the guest is not recorded: "+errs.ToAggregate().Error()))
		return nil
	}
	return r.keep(ctx, vm, vmi, earlier, &made)
}

// guest returns VM and VMI of a name; nil where one does not exist. Both are read from the API server: a cache has no specs.
func (r *recordKeeper) guest(ctx context.Context, key types.NamespacedName) (vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, err error) {
	if vm, err = getVM(ctx, r.live, key); err != nil {
		return nil, nil, err
	}
	vmi, err = getVMI(ctx, r.live, key)
	return vm, vmi, err
}

// keep writes the GuestHardware of a VM. A record that is no longer the one that the VMI was given stays: somebody has captured it since. A VMI whose record
// is in no GuestHardware has it from a tenant's template, of a start while the webhook was down: it gets none.
func (r *recordKeeper) keep(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, earlier, made *record.Record) error {
	hardware, err := Hardware(ctx, r.live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return err
	}
	guest := ownership.GuestOf(vm)
	relation := guest.Ownership(hardware)
	if earlier != nil && relation != ownership.Own {
		return nil
	}
	switch relation {
	case ownership.Foreign:
		r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareForeign, "Reconcile", "%s", condition.Note(ownership.ForeignMessage(hardware)))
		return nil
	case ownership.Stale:
		if err := r.delete(ctx, hardware); err != nil {
			return err
		}
		fallthrough
	case ownership.Absent:
		hardware = &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
		hardware.Spec = v1alpha1.GuestHardwareSpec{Identity: guest.Identity, Hardware: made}
		if err := r.live.Create(ctx, hardware); err != nil {
			return fmt.Errorf("creating GuestHardware '%s': %w", vm.Name, err)
		}
	default:
		if equality.Semantic.DeepEqual(hardware.Spec.Hardware, earlier) {
			written := hardware.DeepCopy()
			written.Spec.Hardware = made
			if err := r.live.Patch(ctx, written, client.MergeFromWithOptions(hardware, client.MergeFromWithOptimisticLock{})); err != nil {
				return err
			}
			hardware = written
		}
	}
	patched := hardware.DeepCopy()
	patched.Status.VirtualMachineUID = vm.UID
	patched.Status.Guest = &v1alpha1.HardwareUser{UID: vmi.UID, NodeName: vmi.Status.NodeName}
	return r.live.Status().Patch(ctx, patched, client.MergeFrom(hardware))
}

// forget deletes the hardware of a VM that is gone, with its VMI. Hardware that no guest of this cluster was given stays: its VM may still be restored.
func (r *recordKeeper) forget(ctx context.Context, key types.NamespacedName) error {
	if cached, err := getVM(ctx, r.client, key); err != nil || cached != nil { // most VMs that have no VMI are stopped
		return err
	}
	hardware, err := Hardware(ctx, r.live, key)
	if err != nil || hardware == nil || !ownership.Assigned(hardware) {
		return err
	}
	if vm, vmi, err := r.guest(ctx, key); err != nil || vm != nil || vmi != nil { // the cache lags behind
		return err
	}
	return r.delete(ctx, hardware)
}

// delete deletes a GuestHardware as it was read.
func (r *recordKeeper) delete(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	err := r.live.Delete(ctx, hardware, client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting GuestHardware '%s': %w", hardware.Name, err)
	}
	return nil
}
