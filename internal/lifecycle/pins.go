package lifecycle

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completePins writes the identity of a new VM, and pins the presets, profiles and configuration that its VMIs keep. A VM that was restored from a backup, or
// re-created from Git, already has these annotations. Profiles are pinned together with presets.
func (c *Controller) completePins(ctx context.Context, s *state) error {
	hasIdentity := s.vm.Annotations[v1alpha1.AnnotationIdentity] != ""
	if hasIdentity && s.pins.Presets != nil && s.pins.Configuration != "" {
		return nil
	}
	pins, drafts, err := c.resolver().CompletePins(ctx, s.vm, s.pins)
	if errors.As(err, new(*resolve.Refusal)) {
		pins, err = s.pins, nil // creating the VMI will be refused, which the VM's Failure condition reports
	}
	if err != nil || hasIdentity && pins.Equal(s.pins) {
		return err
	}
	if err := c.writeRevisions(ctx, drafts...); err != nil {
		return err
	}
	err = c.patchAnnotations(ctx, s, func(vm *v1.VirtualMachine) {
		if vm.Annotations[v1alpha1.AnnotationIdentity] == "" {
			vm.Annotations[v1alpha1.AnnotationIdentity] = string(vm.UID)
		}
		pin.Write(vm, pins)
	})
	if apierrors.IsInvalid(err) || outage.WebhookOf(err) != "" { // a GuestPolicy refuses the VM with its presets or profiles, or the webhook does not answer
		c.handleError(s, v1alpha1.ReasonFailedPin, err)
		return nil
	}
	return err
}

// pinMatchers pins instancetype and preference of a VM if they did not exist when the VM was admitted. Admission validates the VM again when the pins are
// written.
func (c *Controller) pinMatchers(ctx context.Context, s *state) {
	key := client.ObjectKeyFromObject(s.vm)
	if unpinnedReason(s) == "" {
		c.unpinned.remove(key)
		return
	}
	c.unpinned.add(s.vm)
	if err := c.readFullVM(ctx, s); err != nil {
		s.retryable = err
		return
	}
	resolver := c.resolver()
	resolver.Rights = resolve.RecordedRights(s.vm)
	resolved, err := resolver.VM(ctx, s.vm, s.vm)
	if err == nil && !resolved.Pins.Equal(s.pins) {
		if err = c.writeRevisions(ctx, resolved.Drafts...); err == nil {
			err = c.patchAnnotations(ctx, s, func(vm *v1.VirtualMachine) { pin.Write(vm, resolved.Pins) })
		}
	}
	if err != nil {
		c.handleError(s, v1alpha1.ReasonFailedPin, err)
	} else if reason := unpinnedReason(s); reason != "" {
		s.setFailure(reason, strings.Join(resolved.Warnings, "; "))
	}
}

// unpinnedReason returns KubeVirt's reason for a VM that cannot start because a matcher has no pin; empty if each matcher has a pin.
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
	pins, drafts, err := c.resolver().CompletePins(ctx, s.vm, v1alpha1.Pins{Instancetype: s.pins.Instancetype, Preference: s.pins.Preference})
	if err != nil || pins.Equal(s.pins) {
		return err
	}
	if err := c.writeRevisions(ctx, drafts...); err != nil {
		return err
	}
	return c.patchAnnotations(ctx, s, func(vm *v1.VirtualMachine) { pin.Write(vm, pins) })
}

// resolver returns the Resolver with the current configuration.
func (c *Controller) resolver() resolve.Resolver {
	resolver := c.Resolver
	if c.Configuration != nil {
		now := c.Configuration()
		resolver.Defaults = &now.Defaults
	}
	return resolver
}

// patchAnnotations patches the annotations of the VM. It fails with a conflict if the VM has changed since it was read. It replaces the VM of the state only
// on success: the object that a failed patch leaves is neither what was read nor what is stored.
func (c *Controller) patchAnnotations(ctx context.Context, s *state, change func(*v1.VirtualMachine)) error {
	vm := s.vm.DeepCopy()
	vm.Annotations = maps.Clone(vm.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	change(vm)
	if err := objects.Patch(ctx, c.Client, vm, s.vm); err != nil {
		return err
	}
	s.setVM(vm)
	return nil
}

// pinnedFrontend returns the FrontendProfile of the configuration that a VMI is pinned to, or of the current configuration if the VMI is not pinned. The
// controller writes the values of the revision into the record, so that the launcher needs no right to read revisions, and a later edit of an annotation has
// no effect.
func (c *Controller) pinnedFrontend(ctx context.Context, vmi *v1.VirtualMachineInstance) (*v1alpha1.Frontend, error) {
	defaults, err := c.resolver().Configuration(ctx, vmi)
	if err != nil || defaults == nil {
		return nil, err
	}
	return defaults.Frontend, nil
}
