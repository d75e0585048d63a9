package node

import (
	"context"
	"errors"
	"io/fs"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hostresources"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The running hardware is state 4 of a guest: status.running of its GuestHardware. Kiln does not change a guest that runs on a bare machine, but the machine's
// administrator may, with virsh. libvirt reports changes of devices and media by events; vCPUs, memory and links are read again every resyncInterval.

// frontendFile is a file in the VMI's folder: the frontend that its domain was started with.
const frontendFile = "frontend.xml"

// saveFrontend writes the frontend of a VMI's start into the VMI's folder.
func saveFrontend(bound hostresources.Bound, front render.Front) error {
	text, err := front.Marshal()
	if err != nil {
		return err
	}
	return bound.WriteFile(frontendFile, []byte(text))
}

// recordRunning writes the hardware that libvirt runs into status.running of the VMI's GuestHardware, if it has changed. A VMI that an earlier release started
// has no frontend in its folder, and gets no status.running.
func (n *Node) recordRunning(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	text, err := n.Machine.ReadFile(vmi, frontendFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	front, err := render.ReadFrontend(string(text))
	if err != nil {
		return err
	}
	seen, err := n.Hypervisor.Hardware(ctx, n.owner(vmi))
	if err != nil || seen.VCPUs == 0 { // the domain has ended since
		return err
	}
	reported := v1alpha1.ReportedHardware{LiveHardware: render.RunningHardware(front, render.Seen(seen))}
	return n.patchRunning(ctx, vmi, func(was *v1alpha1.HardwareRunning) *v1alpha1.HardwareRunning {
		if render.VerifiesCPU(front) && (was == nil || was.UID != vmi.UID || was.CPU == nil) {
			reported.CPU = n.readRunningCPU(ctx, vmi)
		}
		now := render.ObservedHardware(was, front, reported, vmi.UID, metav1.Now())
		now.Cause = condition.Note(now.Cause)
		return &now
	})
}

// readRunningCPU returns the CPU that libvirt runs; nil if it cannot be read now. The next call reads it again.
func (n *Node) readRunningCPU(ctx context.Context, vmi *v1.VirtualMachineInstance) *v1alpha1.ReportedCPU {
	cpu, err := n.Hypervisor.RunningCPU(ctx, n.owner(vmi))
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the CPU of the domain cannot be read", "reason", err.Error())
	}
	return cpu
}

// forgetRunning removes status.running from the GuestHardware of a VMI that has ended.
func (n *Node) forgetRunning(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	return n.patchRunning(ctx, vmi, func(*v1alpha1.HardwareRunning) *v1alpha1.HardwareRunning { return nil })
}

// patchRunning replaces status.running of the VMI's GuestHardware, unless it is the same. A refusal of the API server is only logged, because roles and
// policies of an earlier release do not allow launchers to write the status.
func (n *Node) patchRunning(ctx context.Context, vmi *v1.VirtualMachineInstance, next func(was *v1alpha1.HardwareRunning) *v1alpha1.HardwareRunning) error {
	found := &v1alpha1.GuestHardware{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(vmi), found); err != nil {
		return client.IgnoreNotFound(err)
	}
	if guest := found.Status.Guest; guest == nil || guest.UID != vmi.UID {
		return nil
	}
	changed := found.DeepCopy()
	if changed.Status.Running = next(found.Status.Running); equality.Semantic.DeepEqual(found.Status, changed.Status) {
		return nil
	}
	err := n.Status().Patch(ctx, changed, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsForbidden(err) {
		ctrl.LoggerFrom(ctx).Info("what libvirt runs cannot be written into the GuestHardware", "reason", err.Error())
		return nil
	}
	return client.IgnoreNotFound(err)
}
