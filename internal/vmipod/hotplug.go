package vmipod

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// hotplug writes the changed spec of a VMI whose guest runs into spec.live of the GuestPod, from where the launcher applies it to libvirt. CPUs and memory come
// from the node first: the pod is resized, and the GuestPod gets them when kubelet has done it.
type hotplug struct {
	*environment
	resize podResize
	// limits bound how often the wanted hardware of a running guest is computed.
	limits rateLimits
}

// resizeInterval is the time between two checks of a pod that is being resized. Kubelet's changes of the pod arrive as events.
const resizeInterval = 30 * time.Second

func (h *hotplug) forgetVMI(vmi types.NamespacedName) { h.limits.forgetVMI(vmi) }

// updateLiveHardware writes the hardware that the VMI now asks for into spec.live of the GuestPod. It can be repeated after each of its writes.
func (h *hotplug) updateLiveHardware(ctx context.Context, o observed.Objects, done *outcome) error {
	if !isOutdated(o) {
		return nil
	}
	if wait := h.limits.timeUntilNext(o.Key, h.Now(), statusesPerSecond, statusBurst); wait > 0 {
		done.requeueAfter(wait)
		done.hotplugUnknown = true
		return nil
	}
	vmi, err := objects.GetOrNil(ctx, h.Live, o.Key, &v1.VirtualMachineInstance{}) // the cache has no spec
	if err != nil || vmi == nil || vmi.UID != o.VMI.UID {
		return err
	}
	guest, err := objects.GetOrNil(ctx, h.Live, o.Key, &v1alpha1.GuestPod{}) // the cache has no frontend
	if err != nil || guest == nil || guest.UID != o.GuestPod.UID || guest.Spec.Hardware == nil {
		return err
	}
	front, err := render.ReadFrontend(guest.Spec.Hardware.Frontend)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the frontend of a running guest cannot be read", "reason", err.Error())
		return nil
	}
	had, wanted := render.BootedHardware(front), render.WantedHardware(vmi, front)
	if guest.Spec.Live != nil {
		had = guest.Spec.Live.LiveHardware
	}
	live := v1alpha1.GuestPodLive{LiveHardware: wanted, VMIGeneration: vmi.Generation}
	pending := vmistatus.PendingHotplug{CPU: wanted.VCPUs > had.VCPUs, Memory: wanted.MemoryKiB > had.MemoryKiB}
	if pending.CPU || pending.Memory || resizePending(o.Pod) != nil {
		cause, err := h.resize.resizePod(ctx, o, vmi)
		if err != nil {
			return err
		}
		if cause != nil && (pending.CPU || pending.Memory) {
			pending.Cause, done.pendingHotplug = *cause, &pending
			live.VCPUs, live.MemoryKiB, live.VMIGeneration = had.VCPUs, had.MemoryKiB, 0
			done.requeueAfter(resizeInterval)
		}
	}
	if guest.Spec.Live != nil && equality.Semantic.DeepEqual(*guest.Spec.Live, live) {
		return nil
	}
	changed := guest.DeepCopy()
	changed.Spec.Live = &live
	return h.patchGuestPod(ctx, changed, guest)
}

// isOutdated reports whether the GuestPod of a running guest lacks a change of the VMI.
func isOutdated(o observed.Objects) bool {
	if o.RunningDomain() == nil || o.VMI.Status.Phase != v1.Running || o.VMI.DeletionTimestamp != nil || o.Pod.DeletionTimestamp != nil {
		return false
	}
	return writtenGeneration(o.GuestPod) != o.VMI.Generation
}

// writtenGeneration returns the generation of the VMI of which the GuestPod has all hardware.
func writtenGeneration(guest *v1alpha1.GuestPod) int64 {
	if guest.Spec.Live != nil {
		return guest.Spec.Live.VMIGeneration
	}
	return guest.Spec.Hardware.VMIGeneration
}
