package vmipod

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runningHardware writes what libvirt runs into status.running of the GuestHardware. The launcher reports it, and a tenant may be the launcher: a report is
// copied only if the guest can have such hardware. This process computes the digest, and sets the time.
type runningHardware struct {
	*environment
	// limits bound how often reports are copied.
	limits rateLimits
	// judged has the last report of each guest that was copied or refused, as reportID gives it, by types.NamespacedName. It is lost with the process, which then
	// reads the GuestHardware of each guest once.
	judged sync.Map
}

func (r *runningHardware) forgetVMI(vmi types.NamespacedName) {
	r.limits.forgetVMI(vmi)
	r.judged.Delete(vmi)
}

// copyReport copies the report of the launcher if it has changed. Reports that follow each other too fast wait.
func (r *runningHardware) copyReport(ctx context.Context, o observed.Objects, done *outcome) error {
	if o.RunningHardware() == nil || o.VMI.IsFinal() {
		return nil
	}
	if last, _ := r.judged.Load(o.Key); last == reportID(o.GuestPod) {
		return nil
	}
	if wait := r.limits.timeUntilNext(o.Key, r.Now(), statusesPerSecond, statusBurst); wait > 0 {
		done.requeueAfter(wait)
		return nil
	}
	hardware, err := ownership.ReadHardware(ctx, r.Live, o.Key)
	if err != nil || hardware == nil || hardware.Status.Guest == nil || hardware.Status.Guest.UID != o.VMI.UID {
		return err // internal/lifecycle is about to name the guest, whose event leads here again
	}
	guest, err := objects.GetOrNil(ctx, r.Live, o.Key, &v1alpha1.GuestPod{}) // the cache has no frontend
	if err != nil || guest == nil || guest.UID != o.GuestPod.UID || guest.Spec.Hardware == nil || guest.Status.Running == nil {
		return err
	}
	front, err := checkedFrontend(guest)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the launcher reports hardware that its guest cannot have", "reason", err.Error())
		r.judged.Store(o.Key, reportID(o.GuestPod))
		return nil
	}
	if err := r.saveHardware(ctx, hardware, front, *guest.Status.Running); err != nil {
		return err
	}
	r.judged.Store(o.Key, reportID(guest))
	return nil
}

// checkedFrontend returns the frontend with which a guest was started. It returns an error if that guest cannot have the reported hardware.
func checkedFrontend(guest *v1alpha1.GuestPod) (render.Front, error) {
	front, err := render.ReadFrontend(guest.Spec.Hardware.Frontend)
	if err != nil {
		return nil, err
	}
	if cpu := guest.Status.Running.CPU; cpu != nil {
		if err := record.CheckReportedCPU(cpu); err != nil {
			return nil, fmt.Errorf("cpu: %w", err)
		}
	}
	return front, render.CheckLive(front, guest.Status.Running.LiveHardware)
}

// saveHardware writes status.running if it has changed. The time is not taken from the launcher, whose clock a tenant may set.
func (r *runningHardware) saveHardware(ctx context.Context, hardware *v1alpha1.GuestHardware, front render.Front, reported v1alpha1.ReportedHardware) error {
	before := hardware.Status.Running
	running := render.ObservedHardware(before, front, reported, hardware.Status.Guest.UID, metav1.NewTime(r.Now()))
	if running.Cause = condition.Note(running.Cause); before != nil && equality.Semantic.DeepEqual(*before, running) {
		return nil
	}
	return r.patchStatus(ctx, hardware, &running)
}

// patchStatus returns a conflict if another process has written since the GuestHardware was read.
func (r *runningHardware) patchStatus(ctx context.Context, hardware *v1alpha1.GuestHardware, running *v1alpha1.HardwareRunning) error {
	changed := hardware.DeepCopy()
	changed.Status.Running = running
	return client.IgnoreNotFound(objects.PatchStatus(ctx, r.Live, changed, hardware))
}

// removeStatus removes status.running of a guest that has ended.
func (r *runningHardware) removeStatus(ctx context.Context, o observed.Objects) error {
	hardware, err := ownership.ReadHardware(ctx, r.Live, o.Key)
	if err != nil || hardware == nil || hardware.Status.Running == nil || hardware.Status.Running.UID != o.VMI.UID {
		return err
	}
	return r.patchStatus(ctx, hardware, nil)
}

// reportID identifies a report by the GuestPod and the content.
func reportID(guest *v1alpha1.GuestPod) string {
	reported := *guest.Status.Running
	reported.Hindrance = ""           // status.running of the GuestHardware has none
	text, _ := json.Marshal(reported) // strings and numbers, which cannot fail
	return string(guest.UID) + string(text)
}
