package lifecycle

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pinImplicit gives a new VM its identity, and pins the presets, profiles and configuration that its VMIs keep. A VM that was restored from a backup,
// or re-created from Git, has these annotations already. Profiles are pinned where presets are.
func (c *Controller) pinImplicit(ctx context.Context, s *state) error {
	hasIdentity := s.vm.Annotations[v1alpha1.AnnotationIdentity] != ""
	if hasIdentity && s.pins.Presets != nil && s.pins.Configuration != "" {
		return nil
	}
	pins, drafts, err := c.resolver().Complete(ctx, s.vm, s.pins)
	if errors.As(err, new(*resolve.Refusal)) {
		pins, err = s.pins, nil // the VMI is refused at its creation, which the VM's Failure condition reports
	}
	if err != nil || hasIdentity && pins.Equal(s.pins) {
		return err
	}
	if err := c.write(ctx, drafts...); err != nil {
		return err
	}
	err = c.annotate(ctx, s, func(vm *v1.VirtualMachine) {
		if vm.Annotations[v1alpha1.AnnotationIdentity] == "" {
			vm.Annotations[v1alpha1.AnnotationIdentity] = string(vm.UID)
		}
		pin.Write(vm, pins)
	})
	if apierrors.IsInvalid(err) || outage.WebhookOf(err) != "" { // a GuestPolicy refuses what presets or profiles make of the VM, or nobody judges it
		c.failed(s, v1alpha1.ReasonFailedPin, err)
		return nil
	}
	return err
}

// pinMatchers pins instancetype and preference of a VM if they did not exist when the VM was admitted. Admission judges the VM again when the
// pins are written.
func (c *Controller) pinMatchers(ctx context.Context, s *state) {
	key := client.ObjectKeyFromObject(s.vm)
	if unpinnedReason(s) == "" {
		c.unpinned.remove(key)
		return
	}
	c.unpinned.add(s.vm)
	if err := c.readWhole(ctx, s); err != nil {
		s.retryable = err
		return
	}
	resolver := c.resolver()
	resolver.Rights = resolve.RecordedRights(s.vm)
	resolved, err := resolver.VM(ctx, s.vm, s.vm)
	if err == nil && !resolved.Pins.Equal(s.pins) {
		if err = c.write(ctx, resolved.Drafts...); err == nil {
			err = c.annotate(ctx, s, func(vm *v1.VirtualMachine) { pin.Write(vm, resolved.Pins) })
		}
	}
	if err != nil {
		c.failed(s, v1alpha1.ReasonFailedPin, err)
	} else if reason := unpinnedReason(s); reason != "" {
		s.fail(reason, strings.Join(resolved.Warnings, "; "))
	}
}

// unpinnedReason returns KubeVirt's reason for a VM that cannot start because a matcher has no pin; empty if each has one.
func unpinnedReason(s *state) string {
	switch {
	case s.vm.Spec.Instancetype != nil && s.pins.Instancetype == "":
		return v1alpha1.ReasonFailedFindInstancetype
	case s.vm.Spec.Preference != nil && s.pins.Preference == "":
		return v1alpha1.ReasonFailedFindPreference
	}
	return ""
}

// repinLatest pins presets, profiles and configuration anew before a start if annotation kilnvm.io/hardware of the VM is 'latest'.
func (c *Controller) repinLatest(ctx context.Context, s *state) error {
	if s.vm.Annotations[v1alpha1.AnnotationHardware] != v1alpha1.HardwareLatest {
		return nil
	}
	pins, drafts, err := c.resolver().Complete(ctx, s.vm, v1alpha1.Pins{Instancetype: s.pins.Instancetype, Preference: s.pins.Preference})
	if err != nil || pins.Equal(s.pins) {
		return err
	}
	if err := c.write(ctx, drafts...); err != nil {
		return err
	}
	return c.annotate(ctx, s, func(vm *v1.VirtualMachine) { pin.Write(vm, pins) })
}

// resolver returns the Resolver with the configuration that is in force now.
func (c *Controller) resolver() resolve.Resolver {
	resolver := c.Resolver
	if c.Configuration != nil {
		now := c.Configuration()
		resolver.Defaults = &now.Defaults
	}
	return resolver
}

// annotate patches the annotations of the VM. It fails with a conflict if the VM has changed since it was read. The VM of the state is
// replaced only on success: the object that a failed patch leaves is neither what was read nor what is stored.
func (c *Controller) annotate(ctx context.Context, s *state, change func(*v1.VirtualMachine)) error {
	vm := s.vm.DeepCopy()
	vm.Annotations = maps.Clone(vm.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	change(vm)
	if err := c.Client.Patch(ctx, vm, client.MergeFromWithOptions(s.vm, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	s.setVM(vm)
	return nil
}
