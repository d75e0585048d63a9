package lifecycle

import (
	"context"
	"fmt"
	"strings"
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// recordKeeper keeps the hardware of guests that KubeVirt runs and whose VMI has annotation kilnvm.io/frontend. Nobody reports it: the hook in the guest's pod
// has no credentials. What it makes of the VMI and its record, render.KubeVirt makes here again. Other guests have no GuestHardware of Kiln's.
type recordKeeper struct {
	// client reads from the cache, which has no specs and of the annotation only that it is there; live reads everything from the API server.
	client, live client.Client
	events       events.EventRecorder
	// done has what was last looked at of the VMI of each name.
	done sync.Map
}

func (r *recordKeeper) register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("kubevirthardware").
		For(&v1.VirtualMachineInstance{}).
		Watches(&v1.VirtualMachine{}, &handler.EnqueueRequestForObject{}).
		WithOptions(options).Complete(r)
}

// Reconcile looks at each VMI once, and when devices were plugged in or unplugged, and removes the hardware of a VM that is gone.
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
	now := devicesOf(cached)
	if seen, ok := r.done.Load(key); ok && seen == now {
		return ctrl.Result{}, nil
	}
	err = r.look(ctx, key, cached.UID)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err == nil:
		r.done.Store(key, now)
	}
	return ctrl.Result{}, err
}

// look records the hardware of a VMI: at first what it boots with, and later what was plugged in.
func (r *recordKeeper) look(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	vm, vmi, err := r.guest(ctx, key)
	if err != nil || vm == nil || vmi == nil || vmi.UID != uid || vmi.IsFinal() || !controls(vm, vmi) {
		return err
	}
	earlier, asked, err := kubevirt.Recorded(vmi)
	if !asked || err != nil { // what it says, the hook says in the log of the pod
		return nil
	}
	hardware, err := Hardware(ctx, r.live, key)
	if err != nil {
		return err
	}
	if ownership.GuestOf(vm).Ownership(hardware) == ownership.Own && hardware.Status.Guest != nil && hardware.Status.Guest.UID == uid {
		return r.plugged(ctx, vm, vmi, hardware)
	}
	made, errs := render.KubeVirt(vmi, earlier)
	if len(errs) > 0 {
		r.notRecorded(vm, errs)
		return nil
	}
	return r.keep(ctx, guestOfKubeVirt{vm, vmi, hardware}, earlier, &made)
}

// notRecorded says why a guest has no record, or an older one.
func (r *recordKeeper) notRecorded(vm *v1.VirtualMachine, errs field.ErrorList) {
	r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s",
		condition.Note("the hardware of the guest is not recorded: "+errs.ToAggregate().Error()))
}

// plugged records what was plugged into a guest since its record was written, and forgets what was unplugged. An administrator may have captured the record
// meanwhile: then it is the one that is continued. Where it is not certain what libvirt did, the record stays: the next boot has a place for each device.
func (r *recordKeeper) plugged(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, hardware *v1alpha1.GuestHardware) error {
	if hardware.Spec.Hardware == nil {
		return nil
	}
	made, certain, errs := render.KubeVirtPlugged(vmi, hardware.Spec.Hardware)
	switch {
	case len(errs) > 0:
		r.notRecorded(vm, errs)
		return nil
	case !certain || equality.Semantic.DeepEqual(made, hardware.Spec.Hardware):
		return nil
	}
	return r.rewrite(ctx, hardware, made)
}

// rewrite replaces the record of a GuestHardware as it was read.
func (r *recordKeeper) rewrite(ctx context.Context, hardware *v1alpha1.GuestHardware, made *record.Record) error {
	before := hardware.DeepCopy()
	hardware.Spec.Hardware = made
	return r.live.Patch(ctx, hardware, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// guest returns VM and VMI of a name; nil where one does not exist. Both are read from the API server: a cache has no specs.
func (r *recordKeeper) guest(ctx context.Context, key types.NamespacedName) (vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, err error) {
	if vm, err = getVM(ctx, r.live, key); err != nil {
		return nil, nil, err
	}
	vmi, err = getVMI(ctx, r.live, key)
	return vm, vmi, err
}

// guestOfKubeVirt is a guest, and the GuestHardware of its name, nil if there is none.
type guestOfKubeVirt struct {
	vm       *v1.VirtualMachine
	vmi      *v1.VirtualMachineInstance
	hardware *v1alpha1.GuestHardware
}

// keep writes the GuestHardware of a VM. A record that is no longer the one that the VMI was given stays: somebody has captured it since. A VMI whose record
// is in no GuestHardware has it from a tenant's template, of a start while the webhook was down: it gets none.
func (r *recordKeeper) keep(ctx context.Context, of guestOfKubeVirt, earlier, made *record.Record) error {
	vm, hardware := of.vm, of.hardware
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
			if err := r.rewrite(ctx, hardware, made); err != nil {
				return err
			}
		}
	}
	patched := hardware.DeepCopy()
	patched.Status.VirtualMachineUID = vm.UID
	patched.Status.Guest = &v1alpha1.HardwareUser{UID: of.vmi.UID, NodeName: of.vmi.Status.NodeName}
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

// devicesOf says of a cached VMI which one it is, and which disks and interfaces the status says its domain has.
func devicesOf(vmi *v1.VirtualMachineInstance) string {
	var out strings.Builder
	out.WriteString(string(vmi.UID))
	for i := range vmi.Status.VolumeStatus {
		fmt.Fprintf(&out, " %s=%s", vmi.Status.VolumeStatus[i].Name, vmi.Status.VolumeStatus[i].Target)
	}
	for i := range vmi.Status.Interfaces {
		fmt.Fprintf(&out, " %s:%s", vmi.Status.Interfaces[i].Name, vmi.Status.Interfaces[i].InfoSource)
	}
	return out.String()
}
