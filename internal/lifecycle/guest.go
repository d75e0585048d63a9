package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/identity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// introduce gives a VM at first sight its identity and the pins of its circumstances, which its guests keep. A VM that was restored,
// or re-created from Git, brings its own.
func (c *Controller) introduce(ctx context.Context, vm *v1.VirtualMachine) error {
	was := pin.Read(vm)
	if vm.Annotations[v1alpha1.AnnotationIdentity] != "" && was.Presets != nil && was.Configuration != "" {
		return nil
	}
	pins, drafts, err := c.resolver().Complete(ctx, vm, was)
	if mistakes := (*resolve.Refusal)(nil); errors.As(err, &mistakes) {
		pins, err = was, nil // the guest is refused when it is to start, by which its owner hears of it
	}
	if err != nil {
		return err
	}
	if vm.Annotations[v1alpha1.AnnotationIdentity] != "" && pins.Equal(was) {
		return nil
	}
	if err := c.write(ctx, drafts...); err != nil {
		return err
	}
	return c.annotate(ctx, vm, func(annotated *v1.VirtualMachine) {
		if annotated.Annotations[v1alpha1.AnnotationIdentity] == "" {
			annotated.Annotations[v1alpha1.AnnotationIdentity] = string(vm.UID)
		}
		pin.Write(annotated, pins)
	})
}

// resolver resolves by the configuration that is in force when it is asked for.
func (c *Controller) resolver() resolve.Resolver {
	resolver := c.Resolver
	if c.Configuration != nil {
		now := c.Configuration()
		resolver.Defaults = &now.Defaults
	}
	return resolver
}

// refresh pins anew, before a start, what a VM gets afresh at each: with hardware 'latest'.
func (c *Controller) refresh(ctx context.Context, vm *v1.VirtualMachine) (*v1.VirtualMachine, error) {
	if vm.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest {
		return vm, nil
	}
	was := pin.Read(vm)
	pins, drafts, err := c.resolver().Complete(ctx, vm, v1alpha1.Pins{Instancetype: was.Instancetype, Preference: was.Preference})
	if err != nil || pins.Equal(was) {
		return vm, err
	}
	if err := c.write(ctx, drafts...); err != nil {
		return vm, err
	}
	fresh := vm.DeepCopy()
	err = c.annotate(ctx, fresh, func(vm *v1.VirtualMachine) { pin.Write(vm, pins) })
	return fresh, err
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
	resolver := c.resolver()
	resolver.Rights = resolve.RecordedRights(s.vm)
	resolved, err := resolver.VM(ctx, s.vm, s.vm)
	if err == nil && !resolved.Pins.Equal(pin.Read(s.vm)) {
		if err = c.write(ctx, resolved.Drafts...); err == nil {
			pinned := s.vm.DeepCopy()
			err = c.annotate(ctx, pinned, func(vm *v1.VirtualMachine) { pin.Write(vm, resolved.Pins) })
			if err == nil {
				s.vm = pinned
			}
		}
	}
	if err != nil {
		c.failed(s, v1alpha1.ReasonFailedPin, err)
	} else if reason := unpinned(s.vm); reason != "" {
		s.blocked(reason, strings.Join(resolved.Warnings, "; "))
	}
}

// unpinned is the reason why a VM cannot start, in KubeVirt's words, or empty.
func unpinned(vm *v1.VirtualMachine) string {
	pins := pin.Read(vm)
	switch {
	case vm.Spec.Instancetype != nil && pins.Instancetype == "":
		return v1alpha1.ReasonFailedFindInstancetype
	case vm.Spec.Preference != nil && pins.Preference == "":
		return v1alpha1.ReasonFailedFindPreference
	}
	return ""
}

// act does what the run strategy asks for.
func (c *Controller) act(ctx context.Context, s *state) {
	switch s.next() {
	case stop:
		// The end of a guest is counted before the guest goes: a process that dies in between would forget it. The status that says so
		// comes back as an event.
		if s.runsAgain() && s.failures() != nil && !s.counted() {
			return
		}
		c.stop(ctx, s)
	case start:
		if s.taken {
			s.blocked(v1alpha1.ReasonNameTaken, fmt.Sprintf("a virtual machine instance '%s' exists that does not belong to this virtual machine: delete it", s.vm.Name))
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
		c.failed(s, v1alpha1.ReasonFailedDelete, err)
		return
	}
	c.event(s, corev1.EventTypeNormal, v1alpha1.ReasonSuccessfulDelete, "stopped the virtual machine instance")
}

func (c *Controller) start(ctx context.Context, s *state) {
	vm, err := c.refresh(ctx, s.vm)
	if err != nil {
		c.failed(s, v1alpha1.ReasonFailedPin, err)
		return
	}
	s.vm = vm
	vmi := admit.Instance(resolve.Effective(vm, pin.Read(vm)))
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1.VirtualMachineGenerationAnnotation, strconv.FormatInt(s.vm.Generation, 10))
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.vm, v1.VirtualMachineGroupVersionKind)}
	err = c.recall(ctx, s.vm, vmi)
	if err == nil {
		identity.Fill(vmi, s.vm.Annotations[v1alpha1.AnnotationIdentity])
		err = c.Client.Create(ctx, vmi)
	}
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not know it yet
		s.retry = err
	case err != nil:
		c.failed(s, v1alpha1.ReasonFailedCreate, err)
	default:
		s.vmi = vmi
		c.event(s, corev1.EventTypeNormal, v1alpha1.ReasonSuccessfulCreate, "created the virtual machine instance")
	}
}

// failed tells of an error. One that is the user's to mend waits for the user; others are tried again soon.
func (c *Controller) failed(s *state, reason string, err error) {
	var mistakes *resolve.Refusal
	if errors.As(err, &mistakes) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || condition.Oversized(err) {
		s.blocked(reason, err.Error())
		return
	}
	s.retry = err
	if !apierrors.IsConflict(err) {
		s.trouble = &trouble{reason, err.Error()}
	}
}

func (c *Controller) event(s *state, kind, reason, note string) {
	c.Events.Eventf(s.vm, nil, kind, reason, "Reconcile", "%s", condition.Note(note))
}
