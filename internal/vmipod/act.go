package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// act does an action. Each is repeatable: this process may die after any of its writes.
func (c *Controller) act(ctx context.Context, s seen, next action) (o outcome, err error) {
	switch next {
	case actionAddVMIFinalizer:
		return o, c.finalize(ctx, s.vmi)
	case actionCreatePod:
		return c.unlessRefused(s, func() (*condition.Cause, error) { return c.place(ctx, s) })
	case actionReportNameTaken:
		return outcome{refusal: taken("Pod", s.pod.Name), after: retryInterval}, nil
	case actionWait:
		return o, c.adapt(ctx, s)
	case actionDeletePod:
		return o, c.stop(ctx, s)
	case actionDeleteUnrecordedPod:
		return o, c.discard(ctx, s)
	case actionDeleteGuestPod:
		return o, c.delete(ctx, s.guest)
	case actionCreateGuestPod:
		return c.unlessRefused(s, func() (*condition.Cause, error) { return c.introduce(ctx, s) })
	case actionRecordHardware:
		return c.unlessRefused(s, func() (*condition.Cause, error) { return c.equip(ctx, s) })
	case actionSetFinalPhase:
		return c.finish(ctx, s)
	case actionRemovePodFinalizer:
		return o, c.release(ctx, s)
	case actionRemoveVMIFinalizer:
		return c.part(ctx, s)
	}
	return o, nil
}

// finalize adds the finalizer of a VMI without a VM: internal/lifecycle creates those of VMs with it.
func (c *Controller) finalize(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	finalized := vmi.DeepCopy()
	controllerutil.AddFinalizer(finalized, v1.VirtualMachineInstanceFinalizer)
	return c.patchVMI(ctx, vmi, finalized)
}

// patchVMI writes metadata of a VMI, unless it has changed since it was read.
func (c *Controller) patchVMI(ctx context.Context, was, is *v1.VirtualMachineInstance) error {
	err := objects.Patch(ctx, c.Client, is, was)
	if err == nil {
		c.vmis.Note(is, c.Now())
	}
	return client.IgnoreNotFound(err)
}

// delete deletes an object as far as it is the one that was read. The UID keeps a cache that lags behind from deleting a successor of the name.
func (c *Controller) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	if err := client.IgnoreNotFound(c.Live.Delete(ctx, object, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("deleting %T '%s': %w", object, object.GetName(), err)
	}
	return nil
}

// discard deletes a pod that the VMI's status does not have. It asks the API server first: the cache may lag behind the status.
func (c *Controller) discard(ctx context.Context, s seen) error {
	if current, err := c.unrecordedNow(ctx, s); err != nil || !current {
		return err
	}
	return c.delete(ctx, s.pod)
}

// unrecordedNow reports whether the API server has the VMI too, and without this pod in its status.
func (c *Controller) unrecordedNow(ctx context.Context, s seen) (bool, error) {
	now, err := get(ctx, c.Live, s.key, &v1.VirtualMachineInstance{})
	return err == nil && (now == nil || now.UID != s.vmi.UID || !recorded(now, s.pod.UID)), err
}

// release removes the finalizer of a pod in which no guest runs.
func (c *Controller) release(ctx context.Context, s seen) error {
	if !s.facts().podStopped() {
		if current, err := c.unrecordedNow(ctx, s); err != nil || !current {
			return err
		}
	}
	released := s.pod.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.FinalizerGuestPod)
	return client.IgnoreNotFound(objects.Patch(ctx, c.Client, released, s.pod))
}

// part removes the finalizer of a VMI that has its final phase, unless the API server has a pod of it that the cache has not: one that this process
// created, and had no answer for.
func (c *Controller) part(ctx context.Context, s seen) (o outcome, err error) {
	if s.pod == nil {
		now, err := get(ctx, c.Live, podOf(s.key), &corev1.Pod{})
		if err != nil {
			return o, err
		}
		if now != nil && ofVMI(now, s.vmi) {
			return outcome{after: conflictRetry}, nil
		}
	}
	parted := s.vmi.DeepCopy()
	controllerutil.RemoveFinalizer(parted, v1.VirtualMachineInstanceFinalizer)
	return o, c.patchVMI(ctx, s.vmi, parted)
}

// finish gives a VMI its final phase. A recorded pod that the cache has not is looked up: the cache may lag behind.
func (c *Controller) finish(ctx context.Context, s seen) (o outcome, err error) {
	if s.pod != nil && !recorded(s.vmi, s.pod.UID) {
		s.pod = nil // somebody else's says nothing about this guest
	}
	if s.pod == nil && len(s.vmi.Status.ActivePods) > 0 {
		now, err := get(ctx, c.Live, podOf(s.key), &corev1.Pod{})
		if err != nil {
			return o, err
		}
		if now != nil && recorded(s.vmi, now.UID) {
			return outcome{after: conflictRetry}, nil
		}
	}
	// The launcher reports the end and then ends: the cache may have its pod's end, and lack its report.
	if s.guest, err = get(ctx, c.Live, s.key, &v1alpha1.GuestPod{}); err != nil {
		return o, err
	}
	if err := c.stopsRunning(ctx, s); err != nil {
		return o, err
	}
	ended := s.vmi.DeepCopy()
	phase, why := s.end()
	s.describe(ended)
	if s.domain() != nil {
		s.setRun(ended)
	}
	followAgent(ended, nil)
	s.followLive(ended, &outcome{})
	condition.SetEnd(ended, phase, why)
	if err := c.writeStatus(ctx, s.vmi, ended); err != nil {
		return o, client.IgnoreNotFound(err)
	}
	c.refused.forget(s.key)
	kind := condition.EndEvent(phase, why)
	c.event(s.vmi, kind, why)
	if kind == corev1.EventTypeWarning && metav1.GetControllerOf(s.vmi) == nil {
		condition.Log(ctx, s.vmi, "vmi", why)
	}
	return o, nil
}

// event writes an event about a VMI. It follows the write that it is about: a repeated write must not repeat it.
func (c *Controller) event(vmi *v1.VirtualMachineInstance, kind string, why condition.Cause) {
	c.Events.Eventf(vmi, nil, kind, why.Reason, "Reconcile", "%s", condition.Note(why.Message))
}
