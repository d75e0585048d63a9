package vmipod

import (
	"context"
	"encoding/json"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What libvirt runs is state 4 of a guest: status.running of its GuestHardware. The launcher says what its libvirt says, and a tenant may be the launcher: it
// is copied if the guest can have it. The digest is made here.

// running returns what the launcher says that libvirt runs; nil before the guest runs and after its end.
func (s seen) running() *v1alpha1.ReportedHardware {
	if domain := s.domain(); domain == nil || final(domain.State) {
		return nil
	}
	return s.guestPod().Status.Running
}

// recordRunning copies what the launcher reports into the GuestHardware, if it has changed. Reports that follow each other too fast wait.
func (c *Controller) recordRunning(ctx context.Context, s seen, o *outcome) error {
	said := s.running()
	if said == nil || s.vmi.IsFinal() {
		return nil
	}
	if last, _ := c.copied.Load(s.key); last == reportOf(s) {
		return nil
	}
	if wait := c.runningLimits.wait(s.key, c.Now(), statusesPerSecond, statusBurst); wait > 0 {
		o.again(wait)
		return nil
	}
	hardware, err := lifecycle.Hardware(ctx, c.Live, s.key)
	if err != nil || hardware == nil || hardware.Status.Guest == nil || hardware.Status.Guest.UID != s.vmi.UID {
		return err // internal/lifecycle is about to name the guest, whose event leads here again
	}
	guest, err := get(ctx, c.Live, s.key, &v1alpha1.GuestPod{}) // whole, for its frontend
	if err != nil || guest == nil || guest.UID != s.guest.UID || guest.Spec.Hardware == nil || guest.Status.Running == nil {
		return err
	}
	front, err := startedWith(guest)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the launcher reports hardware that its guest cannot have", "reason", err.Error())
		c.copied.Store(s.key, reportOf(s))
		return nil
	}
	if err := c.saveRunning(ctx, hardware, front, guest.Status.Running.LiveHardware); err != nil {
		return err
	}
	c.copied.Store(s.key, reportOf(seen{key: s.key, guest: guest}))
	return nil
}

// startedWith returns the frontend that a guest was started with. It refuses a report of what that guest cannot have.
func startedWith(guest *v1alpha1.GuestPod) (render.Front, error) {
	front, err := render.ReadFrontend(guest.Spec.Hardware.Frontend)
	if err != nil {
		return nil, err
	}
	return front, render.CheckLive(front, guest.Status.Running.LiveHardware)
}

// saveRunning writes what runs, unless it is there. The time is this process's: the launcher's clock is a tenant's.
func (c *Controller) saveRunning(ctx context.Context, hardware *v1alpha1.GuestHardware, front render.Front, live v1alpha1.LiveHardware) error {
	was := hardware.Status.Running
	now := render.Observed(was, front, live, hardware.Status.Guest.UID, metav1.NewTime(c.Now()))
	if now.Cause = condition.Note(now.Cause); was != nil && equality.Semantic.DeepEqual(*was, now) {
		return nil
	}
	return c.patchRunning(ctx, hardware, &now)
}

// patchRunning writes status.running. It fails with a conflict if another process has written since the GuestHardware was read.
func (c *Controller) patchRunning(ctx context.Context, hardware *v1alpha1.GuestHardware, running *v1alpha1.HardwareRunning) error {
	patched := hardware.DeepCopy()
	patched.Status.Running = running
	err := objects.PatchStatus(ctx, c.Live, patched, hardware)
	return client.IgnoreNotFound(err)
}

// stopsRunning removes status.running of a guest that has ended.
func (c *Controller) stopsRunning(ctx context.Context, s seen) error {
	hardware, err := lifecycle.Hardware(ctx, c.Live, s.key)
	if err != nil || hardware == nil || hardware.Status.Running == nil || hardware.Status.Running.UID != s.vmi.UID {
		return err
	}
	return c.patchRunning(ctx, hardware, nil)
}

// reportOf identifies a report by the GuestPod and its content.
func reportOf(s seen) string {
	text, _ := json.Marshal(s.guest.Status.Running.LiveHardware) // it has strings and numbers alone
	return string(s.guest.UID) + string(text)
}
