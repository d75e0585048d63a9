package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bind names the guest in the status of its hardware, by which the launcher of its node may write the hardware and start the guest.
func (h *hardware) bind(ctx context.Context, f found) error {
	claim, named := f.claim()
	if !named {
		if f.vm == nil || ofVM(f.vmi) {
			return nil // the cache has yet to bring the VM, or it is gone and its guest follows
		}
		return h.refuse(ctx, f.vmi, "NameTaken",
			fmt.Sprintf("the hardware of this name is that of VirtualMachine '%s': delete this virtual machine instance", f.vm.Name))
	}
	if claim.VM == "" {
		if gone, err := h.gone(ctx, client.ObjectKeyFromObject(f.vmi), &v1.VirtualMachine{}, ""); err != nil || !gone {
			return err
		}
	}
	switch claim.Title(f.hardware) {
	case Foreign:
		return h.refuse(ctx, f.vmi, v1alpha1.ReasonHardwareForeign, Foreigner(f.hardware))
	case Stale:
		if err := h.delete(ctx, f.hardware); err != nil {
			return err
		}
		fallthrough
	case Absent:
		made := &v1alpha1.GuestHardware{ObjectMeta: metav1.ObjectMeta{Namespace: f.vmi.Namespace, Name: f.vmi.Name}}
		made.Spec.Identity = claim.Identity
		if err := h.live.Create(ctx, made); err != nil {
			return fmt.Errorf("creating GuestHardware '%s': %w", f.vmi.Name, err)
		}
		f.hardware = made
	}
	h.before.note(client.ObjectKeyFromObject(f.vmi), boot{f.vmi.UID, f.hardware.Spec.Hardware})
	return h.report(ctx, f.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.VirtualMachineUID, status.Guest = claim.VM, &v1alpha1.HardwareUser{UID: f.vmi.UID, NodeName: f.vmi.Status.NodeName}
	})
}

// count notes a boot, and tells the owner what the guest found other than at the last one.
func (h *hardware) count(ctx context.Context, f found) error {
	now := f.hardware.Spec.Hardware
	err := h.report(ctx, f.hardware, func(status *v1alpha1.GuestHardwareStatus) {
		status.Boots++
		status.LastBoot = &v1alpha1.HardwareBoot{UID: f.vmi.UID, Time: metav1.NewTime(h.now())}
		if now != nil {
			status.LastBoot.Digest = now.Digest
		}
	})
	if err != nil {
		return err
	}
	was := h.before.take(client.ObjectKeyFromObject(f.vmi))
	if note := changed(was.hardware, now); was.guest == f.vmi.UID && note != "" {
		var about runtime.Object = f.vmi
		if f.vm != nil {
			about = f.vm
		}
		h.events.Eventf(about, nil, corev1.EventTypeNormal, v1alpha1.ReasonHardwareChanged, "Reconcile", "%s", condition.Note(note))
	}
	return nil
}

// reseed lets the record follow the seed of its VM.
func (h *hardware) reseed(ctx context.Context, f found) error {
	changed := f.hardware.DeepCopy()
	changed.Spec.Identity = f.vm.Annotations[v1alpha1.AnnotationIdentity]
	return client.IgnoreNotFound(h.live.Patch(ctx, changed, client.MergeFromWithOptions(f.hardware, client.MergeFromWithOptimisticLock{})))
}

// remove deletes the hardware of a guest that is gone, after it has asked the API server itself whether it is.
func (h *hardware) remove(ctx context.Context, f found) error {
	key := client.ObjectKeyFromObject(f.hardware)
	var vm, vmi types.UID
	if f.vm != nil {
		vm = f.vm.UID
	}
	if f.vmi != nil {
		vmi = f.vmi.UID
	}
	for _, seen := range []struct {
		object client.Object
		uid    types.UID
	}{{&v1.VirtualMachine{}, vm}, {&v1.VirtualMachineInstance{}, vmi}} {
		if same, err := h.gone(ctx, key, seen.object, seen.uid); err != nil || !same {
			return err // the cache has yet to bring it
		}
	}
	return h.delete(ctx, f.hardware)
}

// gone reports whether the API server has no other object of the name than the one of the UID; empty stands for none.
func (h *hardware) gone(ctx context.Context, key types.NamespacedName, object client.Object, uid types.UID) (bool, error) {
	err := h.live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && object.GetUID() == uid, err
}

func (h *hardware) delete(ctx context.Context, hardware *v1alpha1.GuestHardware) error {
	h.before.take(client.ObjectKeyFromObject(hardware))
	err := h.live.Delete(ctx, hardware, client.Preconditions{UID: &hardware.UID, ResourceVersion: &hardware.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting GuestHardware '%s': %w", hardware.Name, err)
	}
	return nil
}

// report writes the status.
func (h *hardware) report(ctx context.Context, hardware *v1alpha1.GuestHardware, change func(*v1alpha1.GuestHardwareStatus)) error {
	reported := hardware.DeepCopy()
	change(&reported.Status)
	err := h.live.Status().Patch(ctx, reported, client.MergeFromWithOptions(hardware, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// refuse tells the owner of a guest why it does not start.
func (h *hardware) refuse(ctx context.Context, vmi *v1.VirtualMachineInstance, reason, message string) error {
	told := v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse,
		Reason: reason, Message: condition.Message(message), LastTransitionTime: metav1.NewTime(h.now())}
	refused := vmi.DeepCopy()
	refused.Status.Conditions = nil
	for _, c := range vmi.Status.Conditions {
		switch {
		case c.Type != told.Type:
			refused.Status.Conditions = append(refused.Status.Conditions, c)
		case c.Status == told.Status && c.Reason == told.Reason && c.Message == told.Message:
			return nil
		}
	}
	refused.Status.Conditions = append(refused.Status.Conditions, told)
	err := h.client.Status().Patch(ctx, refused, client.MergeFromWithOptions(vmi, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	h.events.Eventf(vmi, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", condition.Note(message))
	return nil
}

// changed tells in words how the hardware of this boot differs from that of the last. Who asked for the latest hardware learns what
// that was; for all others it is what they changed themselves.
func changed(before, after *v1alpha1.HardwareRecord) string {
	if before == nil || after == nil || record.Check(before) != nil || record.Check(after) != nil {
		return ""
	}
	words := ""
	for _, change := range record.Compare(*before, *after) {
		words += "; " + change.Text
	}
	if words == "" {
		return ""
	}
	return "the guest finds other hardware than at its last boot: " + words[2:]
}

// boot is the hardware that a guest was given.
type boot struct {
	guest    types.UID
	hardware *v1alpha1.HardwareRecord
}

// before remembers it while a guest starts, to tell its owner what changes. A process that dies tells nothing.
type before struct {
	sync.Mutex
	boots map[types.NamespacedName]boot
}

func (b *before) note(key types.NamespacedName, given boot) {
	b.Lock()
	defer b.Unlock()
	if b.boots == nil {
		b.boots = map[types.NamespacedName]boot{}
	}
	b.boots[key] = given
}

func (b *before) take(key types.NamespacedName) boot {
	b.Lock()
	defer b.Unlock()
	given := b.boots[key]
	delete(b.boots, key)
	return given
}
