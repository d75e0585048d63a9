package guestcontroller

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/objects"
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
)

// hardwareReconciler records the hardware of guests whose VMI has annotation kilnvm.io/frontend. The hook in the guest's pod has no credentials, so it cannot
// report that hardware: render.KubeVirt computes it here again from the VMI and its record. Of guests without the hook it records only the CPU, if their VM
// asks for a record. Other guests of KubeVirt have no GuestHardware.
type hardwareReconciler struct {
	// client reads from the cache, which contains no specs, and only the key of the annotation. live reads everything from the API server.
	client, live client.Client
	events       events.EventRecorder
	// namespaces are the namespaces whose guests are recorded; nil for all.
	namespaces *enforcement.Namespaces
	// recordedDevices contains the deviceSummary of each name's VMI when its hardware was last recorded.
	recordedDevices sync.Map
}

// Reconcile records the hardware of a new VMI, and again when devices were plugged in or unplugged. It deletes the hardware of a VM that is gone.
func (r *hardwareReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	key := request.NamespacedName
	cached, err := objects.GetOrNil(ctx, r.client, key, &v1.VirtualMachineInstance{})
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case cached == nil:
		r.recordedDevices.Delete(key)
		return ctrl.Result{}, r.deleteOrphanedHardware(ctx, key)
	}
	_, hooked := cached.Annotations[v1alpha1.AnnotationFrontend]
	if !hooked {
		if asks, err := r.asksForRecord(ctx, cached); err != nil || !asks {
			return ctrl.Result{}, err
		}
	}
	if r.namespaces != nil {
		if judged, err := r.namespaces.JudgesNamed(ctx, r.client, r.live, key.Namespace); err != nil || !judged {
			r.recordedDevices.Delete(key)
			return ctrl.Result{}, err
		}
	}
	now := deviceSummary(cached)
	if seen, ok := r.recordedDevices.Load(key); ok && seen == now {
		return ctrl.Result{}, nil
	}
	if hooked {
		err = r.recordHardware(ctx, key, cached.UID)
	} else {
		err = r.recordOnlyCPU(ctx, key, cached.UID)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err == nil:
		r.recordedDevices.Store(key, now)
	}
	return ctrl.Result{}, err
}

// recordHardware records the hardware of a VMI: first what it boots with, later what was plugged in.
func (r *hardwareReconciler) recordHardware(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	vm, vmi, err := r.readVMAndVMI(ctx, key)
	if err != nil || vm == nil || vmi == nil || vmi.UID != uid || vmi.IsFinal() || !ownership.Controls(vm, vmi) {
		return err
	}
	earlier, asked, err := kubevirt.Recorded(vmi)
	if !asked || err != nil { // the hook logs this error in the pod
		return nil
	}
	hardware, err := ownership.ReadHardware(ctx, r.live, key)
	if err != nil {
		return err
	}
	if ownership.GuestOf(vm).Ownership(hardware) == ownership.Own && hardware.Status.Guest != nil && hardware.Status.Guest.UID == uid {
		return r.recordLater(ctx, guest{vm, vmi, hardware}, earlier)
	}
	node, err := r.readNodeCPU(ctx, vmi, earlier)
	if err != nil {
		return err
	}
	made, errs := render.KubeVirtOn(vmi, earlier, node)
	if len(errs) > 0 {
		r.reportNotRecorded(vm, errs)
		return nil
	}
	if note := record.DescribeNewer(earlier); note != "" {
		r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	return r.writeHardware(ctx, guest{vm, vmi, hardware}, earlier, &made)
}

// reportNotRecorded records an event that says why a guest has no record, or an outdated one.
func (r *hardwareReconciler) reportNotRecorded(vm *v1.VirtualMachine, errs field.ErrorList) {
	r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s",
		condition.Note("the hardware of the guest is not recorded: "+errs.ToAggregate().Error()))
}

// recordLater adds to the record the devices that were plugged in since it was written, and removes the unplugged ones. It adds the CPU when the node of the
// guest is known. It continues from the stored record, which an administrator may have captured. If it is not certain what libvirt did, the devices of the
// record stay: the next boot has a place for each device.
func (r *hardwareReconciler) recordLater(ctx context.Context, of guest, earlier *record.Record) error {
	stored := of.hardware.Spec.Hardware
	if stored == nil {
		return nil
	}
	made, certain, errs := render.KubeVirtPlugged(of.vmi, stored)
	if len(errs) > 0 {
		r.reportNotRecorded(of.vm, errs)
		return nil
	}
	if !certain {
		made = stored.DeepCopy()
	}
	if err := r.addCPU(ctx, of, earlier, made); err != nil || equality.Semantic.DeepEqual(made, stored) {
		return err
	}
	return r.replaceRecord(ctx, of.hardware, made)
}

// replaceRecord replaces the record of a GuestHardware. It fails with a conflict if the GuestHardware has changed since it was read.
func (r *hardwareReconciler) replaceRecord(ctx context.Context, hardware *v1alpha1.GuestHardware, made *record.Record) error {
	before := hardware.DeepCopy()
	hardware.Spec.Hardware = made
	return objects.Patch(ctx, r.live, hardware, before)
}

// readVMAndVMI returns the VM and VMI of a name; nil for one that does not exist. Both are read from the API server, because the cache has no specs.
func (r *hardwareReconciler) readVMAndVMI(
	ctx context.Context, key types.NamespacedName,
) (vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, err error) {
	if vm, err = objects.GetOrNil(ctx, r.live, key, &v1.VirtualMachine{}); err != nil {
		return nil, nil, err
	}
	vmi, err = objects.GetOrNil(ctx, r.live, key, &v1.VirtualMachineInstance{})
	return vm, vmi, err
}

// guest is a guest with the GuestHardware of its name, nil if it does not exist.
type guest struct {
	vm       *v1.VirtualMachine
	vmi      *v1.VirtualMachineInstance
	hardware *v1alpha1.GuestHardware
}

// writeHardware writes the GuestHardware of a VM. If the stored record is not the one that the VMI was given, it stays: it was captured since. If the VMI was
// given a record and no GuestHardware contains one, the record came from a tenant's template during a start without the webhook, and nothing is written.
func (r *hardwareReconciler) writeHardware(ctx context.Context, target guest, earlier, made *record.Record) error {
	vm, hardware := target.vm, target.hardware
	relation := ownership.GuestOf(vm).Ownership(hardware)
	if earlier != nil && relation != ownership.Own {
		return nil
	}
	switch relation {
	case ownership.Foreign:
		r.events.Eventf(vm, nil, corev1.EventTypeWarning, v1alpha1.ReasonHardwareForeign, "Reconcile", "%s", condition.Note(ownership.ForeignMessage(hardware)))
		return nil
	case ownership.Stale:
		if err := r.deleteHardware(ctx, hardware); err != nil {
			return err
		}
		fallthrough
	case ownership.Absent:
		hardware = &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: vm.Name}}
		hardware.Spec = v1alpha1.GuestHardwareSpec{Identity: ownership.GuestOf(vm).Identity, Hardware: made}
		if err := r.live.Create(ctx, hardware); err != nil {
			return fmt.Errorf("creating GuestHardware '%s': %w", vm.Name, err)
		}
	default:
		if equality.Semantic.DeepEqual(hardware.Spec.Hardware, earlier) {
			if err := r.replaceRecord(ctx, hardware, made); err != nil {
				return err
			}
		}
	}
	patched := hardware.DeepCopy()
	patched.Status.VirtualMachineUID = vm.UID
	patched.Status.Guest = &v1alpha1.HardwareUser{UID: target.vmi.UID, NodeName: target.vmi.Status.NodeName}
	return r.live.Status().Patch(ctx, patched, client.MergeFrom(hardware))
}

// deleteOrphanedHardware deletes the GuestHardware of a VM that is gone together with its VMI. A GuestHardware that was never assigned to a guest of this
// cluster stays, because its VM may still be restored.
func (r *hardwareReconciler) deleteOrphanedHardware(ctx context.Context, key types.NamespacedName) error {
	if cached, err := objects.GetOrNil(ctx, r.client, key, &v1.VirtualMachine{}); err != nil || cached != nil { // most VMs that have no VMI are stopped
		return err
	}
	hardware, err := ownership.ReadHardware(ctx, r.live, key)
	if err != nil || hardware == nil || !ownership.Assigned(hardware) {
		return err
	}
	if vm, vmi, err := r.readVMAndVMI(ctx, key); err != nil || vm != nil || vmi != nil { // the cache lags behind
		return err
	}
	return r.deleteHardware(ctx, hardware)
}

// deleteHardware deletes a GuestHardware if it has not changed since it was read.
func (r *hardwareReconciler) deleteHardware(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	if err := objects.DeleteUnchanged(ctx, r.live, hardware); err != nil {
		return fmt.Errorf("deleting GuestHardware '%s': %w", hardware.Name, err)
	}
	return nil
}

// deviceSummary identifies a cached VMI, whether its guest runs, and the disks and interfaces that, by its status, its domain has.
func deviceSummary(vmi *v1.VirtualMachineInstance) string {
	var out strings.Builder
	out.WriteString(string(vmi.UID))
	if vmi.Status.Phase == v1.Running {
		out.WriteString(" on " + vmi.Status.NodeName)
	}
	for i := range vmi.Status.VolumeStatus {
		fmt.Fprintf(&out, " %s=%s", vmi.Status.VolumeStatus[i].Name, vmi.Status.VolumeStatus[i].Target)
	}
	for i := range vmi.Status.Interfaces {
		fmt.Fprintf(&out, " %s:%s", vmi.Status.Interfaces[i].Name, vmi.Status.Interfaces[i].InfoSource)
	}
	return out.String()
}
