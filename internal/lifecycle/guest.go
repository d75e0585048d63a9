package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/pipeline"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// introduce gives a VM its identity at first sight. A VM that was restored, or re-created from Git, brings its own.
func (c *Controller) introduce(ctx context.Context, vm *v1.VirtualMachine) error {
	if vm.Annotations[pipeline.AnnotationIdentity] != "" {
		return nil
	}
	return c.annotate(ctx, vm, func(annotated *v1.VirtualMachine) {
		annotated.Annotations[pipeline.AnnotationIdentity] = string(vm.UID)
	})
}

// annotate patches the annotations of a VM, unless it has been changed since it was read.
func (c *Controller) annotate(ctx context.Context, vm *v1.VirtualMachine, change func(*v1.VirtualMachine)) error {
	before := vm.DeepCopy()
	vm.Annotations = maps.Clone(vm.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	change(vm)
	return c.Client.Patch(ctx, vm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// pin gives pins to a VM whose size or preference was unknown when it was admitted. Admission then judges it with them.
func (c *Controller) pin(ctx context.Context, s *state) {
	key := client.ObjectKeyFromObject(s.vm)
	if unpinned(s.vm) == "" {
		c.waiting.note(key, nil)
		return
	}
	c.waiting.note(key, s.vm)
	resolver := c.Resolver
	resolver.Rights = resolve.RecordedRights(s.vm)
	resolved, err := resolver.VM(ctx, s.vm, s.vm)
	if err == nil && resolved.Pins != resolve.ReadPins(s.vm) {
		if err = c.write(ctx, resolved.Drafts...); err == nil {
			pinned := s.vm.DeepCopy()
			err = c.annotate(ctx, pinned, func(vm *v1.VirtualMachine) { resolve.WritePins(vm, resolved.Pins) })
			if err == nil {
				s.vm = pinned
			}
		}
	}
	if err != nil {
		c.failed(s, "FailedPin", err)
	} else if reason := unpinned(s.vm); reason != "" {
		s.blocked(reason, strings.Join(resolved.Warnings, "; "))
	}
}

// unpinned is the reason why a VM cannot start, in KubeVirt's words, or empty.
func unpinned(vm *v1.VirtualMachine) string {
	pins := resolve.ReadPins(vm)
	switch {
	case vm.Spec.Instancetype != nil && pins.Instancetype == "":
		return "FailedFindInstancetype"
	case vm.Spec.Preference != nil && pins.Preference == "":
		return "FailedFindPreference"
	}
	return ""
}

// act does what the run strategy asks for.
func (c *Controller) act(ctx context.Context, s *state) {
	switch s.next() {
	case stop:
		c.stop(ctx, s)
	case start:
		if s.taken {
			s.blocked("NameTaken", fmt.Sprintf("a virtual machine instance '%s' exists that does not belong to this virtual machine: delete it", s.vm.Name))
		}
		if s.trouble != nil || s.retry != nil {
			return
		}
		if pause := s.pause(); pause > 0 {
			s.wait(pause)
			return
		}
		c.start(ctx, s)
	}
}

func (c *Controller) stop(ctx context.Context, s *state) {
	uid := s.vmi.UID
	err := c.Client.Delete(ctx, s.vmi, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		c.failed(s, "FailedDelete", err)
		return
	}
	c.event(s, corev1.EventTypeNormal, "SuccessfulDelete", "stopped the virtual machine instance")
}

func (c *Controller) start(ctx context.Context, s *state) {
	vmi := pipeline.Instance(resolve.Effective(s.vm, resolve.ReadPins(s.vm)))
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.vm, v1.VirtualMachineGroupVersionKind)}
	vmi.Finalizers = []string{Finalizer}
	err := c.remember(ctx, s.vm, vmi)
	if err == nil {
		pipeline.Identify(vmi, s.vm.Annotations[pipeline.AnnotationIdentity])
		err = c.Client.Create(ctx, vmi)
	}
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not know it yet
		s.retry = err
	case err != nil:
		c.failed(s, "FailedCreate", err)
	default:
		s.vmi = vmi
		c.event(s, corev1.EventTypeNormal, "SuccessfulCreate", "created the virtual machine instance")
	}
}

// failed tells of an error. One that is the user's to mend waits for the user; others are tried again soon.
func (c *Controller) failed(s *state, reason string, err error) {
	var mistakes *resolve.Refusal
	if errors.As(err, &mistakes) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		s.blocked(reason, err.Error())
		return
	}
	s.retry = err
	if !apierrors.IsConflict(err) {
		s.trouble = &trouble{reason, err.Error()}
	}
}

func (c *Controller) event(s *state, kind, reason, note string) {
	c.Events.Eventf(s.vm, nil, kind, reason, "Reconcile", "%s", note)
}
