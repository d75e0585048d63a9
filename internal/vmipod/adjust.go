package vmipod

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The spec of a VMI whose guest runs changes (internal/lifecycle). The launcher is told in the GuestPod what the guest is to have. CPUs and memory are asked of
// the node first: the pod is resized, and the launcher is told when kubelet has done it.

// growth is what a guest waits for that its pod has not got.
type growth struct {
	why condition.Cause
	// cpu and memory report of which the VMI asks for more.
	cpu, memory bool
}

// resizeInterval is the time between two looks at a pod that is being resized: an event of the pod comes when kubelet has something to say.
const resizeInterval = 30 * time.Second

// outdated reports whether the launcher of a running guest has not been told all that the VMI asks for.
func (s seen) outdated() bool {
	guest, domain := s.guestPod(), s.domain()
	if domain == nil || final(domain.State) || s.vmi.Status.Phase != v1.Running || s.vmi.DeletionTimestamp != nil || s.pod.DeletionTimestamp != nil {
		return false
	}
	return told(guest) != s.vmi.Generation
}

// told returns the generation of the VMI that a launcher has been told all of.
func told(guest *v1alpha1.GuestPod) int64 {
	if guest.Spec.Live != nil {
		return guest.Spec.Live.VMIGeneration
	}
	return guest.Spec.Hardware.VMIGeneration
}

// adjust tells the launcher of a running guest what the VMI asks for by now. Each step is repeatable.
func (c *Controller) adjust(ctx context.Context, s seen, o *outcome) error {
	if !s.outdated() {
		return nil
	}
	if wait := c.adjustLimits.wait(s.key, c.Now(), statusesPerSecond, statusBurst); wait > 0 {
		o.again(wait)
		o.growthUnknown = true
		return nil
	}
	vmi, err := get(ctx, c.Live, s.key, &v1.VirtualMachineInstance{}) // whole, for its spec
	if err != nil || vmi == nil || vmi.UID != s.vmi.UID {
		return err
	}
	guest, err := get(ctx, c.Live, s.key, &v1alpha1.GuestPod{}) // whole, for its frontend
	if err != nil || guest == nil || guest.UID != s.guest.UID || guest.Spec.Hardware == nil {
		return err
	}
	front, err := render.ReadFrontend(guest.Spec.Hardware.Frontend)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the frontend of a running guest cannot be read", "reason", err.Error())
		return nil
	}
	had, wanted := render.Booted(front), render.Wanted(vmi, front)
	if guest.Spec.Live != nil {
		had = guest.Spec.Live.LiveHardware
	}
	live := v1alpha1.GuestPodLive{LiveHardware: wanted, VMIGeneration: vmi.Generation}
	more := growth{cpu: wanted.VCPUs > had.VCPUs, memory: wanted.MemoryKiB > had.MemoryKiB}
	if more.cpu || more.memory || resizePending(s.pod) != nil {
		why, err := c.resize(ctx, s, vmi)
		if err != nil {
			return err
		}
		if why != nil && (more.cpu || more.memory) {
			more.why, o.growth = *why, &more
			live.VCPUs, live.MemoryKiB, live.VMIGeneration = had.VCPUs, had.MemoryKiB, 0
			o.again(resizeInterval)
		}
	}
	return c.tell(ctx, guest, live)
}

// tell writes what a guest is to have, unless the launcher has been told.
func (c *Controller) tell(ctx context.Context, guest *v1alpha1.GuestPod, live v1alpha1.GuestPodLive) error {
	if guest.Spec.Live != nil && equality.Semantic.DeepEqual(*guest.Spec.Live, live) {
		return nil
	}
	patched := guest.DeepCopy()
	patched.Spec.Live = &live
	err := objects.Patch(ctx, c.Live, patched, guest)
	if err == nil {
		c.guests.Note(patched, c.Now())
	}
	return client.IgnoreNotFound(err)
}
