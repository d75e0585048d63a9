package guestcontroller

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The CPU of guests that KubeVirt runs. Only libvirt in the guest's pod knows the CPU that it has made of host-model, and nobody reports it. The labels of the
// node on which the guest has booted say what libvirt makes there. The record that this gives is not verified.

// readNodeCPU returns the CPU that host-model means on the node of a guest, if the record needs it: a guest with host-model without a recorded CPU, or with
// host-passthrough. It returns nil if the guest does not run yet, and if the CPU of its boot cannot be known: after a migration, because the guest keeps the
// CPU of its first node, and after an upgrade of KubeVirt, because the labels are about another libvirt and QEMU than the guest's.
func (r *hardwareReconciler) readNodeCPU(ctx context.Context, vmi *v1.VirtualMachineInstance, stored *record.Record) (*v1alpha1.ReportedCPU, error) {
	asked := vmi.Spec.Domain.CPU
	_, outdated := vmi.Labels[v1.OutdatedLauncherImageLabel]
	switch {
	case vmi.Status.Phase != v1.Running || vmi.Status.NodeName == "" || vmi.Status.MigrationState != nil || outdated || asked == nil:
		return nil, nil
	case asked.Model == v1.CPUModeHostPassthrough:
	case asked.Model != v1.CPUModeHostModel || stored != nil && stored.CPU != nil && stored.CPU.Requested == asked.Model:
		return nil, nil
	}
	node, err := objects.GetOrNil(ctx, r.live, types.NamespacedName{Name: vmi.Status.NodeName}, &corev1.Node{})
	if err != nil || node == nil {
		return nil, err
	}
	return nodecpu.HostModel(node.Labels), nil
}

// addCPU adds the CPU of the guest's node to a record that lacks it. earlier is the record with which the guest has booted; nil at its first boot.
func (r *hardwareReconciler) addCPU(ctx context.Context, of guest, earlier, made *record.Record) error {
	if made.CPU != nil && made.CPU.Requested == v1alpha1.CPURequestedNone && of.hardware.Status.Guest != nil && of.hardware.Status.Guest.UID == of.vmi.UID {
		return nil // the next boot records the CPU: this guest has booted with the one that is to go
	}
	node, err := r.readNodeCPU(ctx, of.vmi, made)
	if err != nil || node == nil {
		return err
	}
	booted, errs := render.KubeVirtOn(of.vmi, earlier, node)
	if len(errs) > 0 {
		r.reportNotRecorded(of.vm, errs)
		return nil
	}
	if booted.CPU != nil {
		made.CPU, made.SchemaVersion = booted.CPU, max(made.SchemaVersion, booted.SchemaVersion)
	}
	return nil
}

// asksForRecord reports whether the VM of a cached VMI asks for a record, and the guest runs.
func (r *hardwareReconciler) asksForRecord(ctx context.Context, cached *v1.VirtualMachineInstance) (bool, error) {
	if cached.Status.Phase != v1.Running {
		return false, nil
	}
	vm, err := objects.GetOrNil(ctx, r.client, client.ObjectKeyFromObject(cached), &v1.VirtualMachine{})
	return err == nil && vm != nil && vm.Annotations[v1alpha1.AnnotationFrontend] == v1alpha1.FrontendNew, err
}

// recordOnlyCPU records the CPU of a guest without the hook. Its devices are not recorded, because nobody reports where libvirt has placed them.
func (r *hardwareReconciler) recordOnlyCPU(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	vm, vmi, err := r.readVMAndVMI(ctx, key)
	if err != nil || vm == nil || vmi == nil || vmi.UID != uid || vmi.IsFinal() || !ownership.Controls(vm, vmi) ||
		vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return err
	}
	hardware, err := ownership.ReadHardware(ctx, r.live, key)
	if err != nil {
		return err
	}
	var earlier *record.Record
	made := &record.Record{}
	if ownership.GuestOf(vm).Ownership(hardware) == ownership.Own && hardware.Spec.Hardware != nil {
		earlier = hardware.Spec.Hardware
		if record.Check(earlier) != nil { // admission warns of it
			return nil
		}
		made = earlier.DeepCopy()
	}
	of := guest{vm, vmi, hardware}
	if err := r.addCPU(ctx, of, earlier, made); err != nil || made.CPU == nil || equality.Semantic.DeepEqual(made, earlier) {
		return err
	}
	return r.writeHardware(ctx, of, earlier, made)
}
