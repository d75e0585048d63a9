package snapshots

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/snapshot"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// judge decides whether the configuration of a snapshot may be activated, and what the target is then to be. It is asked in each step until the target is
// written: what was there a moment ago may be gone. done reports that it may; otherwise the restore has failed, with every cause.
func (c *Controller) judge(ctx context.Context, r *restoring) (done bool, err error) {
	if err := c.nameClaims(ctx, r); err != nil {
		return false, err
	}
	refuse := func(errs field.ErrorList) (bool, error) {
		return false, c.failRestore(ctx, r, v1alpha1.ReasonNotActivatable, condition.Mistakes(errs))
	}
	user, err := operation.CreatorOf(r.restore)
	if err != nil {
		return false, c.failRestore(ctx, r, v1alpha1.ReasonMalformed, err.Error())
	}
	errs, err := hardware.LoadRecord(ctx, c.Live, &r.kept)
	if err != nil {
		return false, err
	}
	taken, err := c.taken(ctx, r)
	if err != nil {
		return false, err
	}
	wanted, wrong := r.target()
	errs = append(append(errs, wrong...), taken...)
	if r.kept.Another(r.restore) && ptr.Deref(r.restore.Spec.VolumeRestorePolicy, "") == api.VolumeRestorePolicyInPlace {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeRestorePolicy"), "InPlace replaces the claims of the VM of the snapshot, whose guest may "+
			"run: use another policy for another VM"))
	}
	if r.kept.Another(r.restore) && keepsState(&wanted.Spec.Template.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "target", "name"), "the VM of the snapshot keeps EFI variables or the state of a TPM, which "+
			"may not be in two VMs: restore it under its own name"))
	}
	lacking, err := c.rights(ctx, r, user)
	if err != nil {
		return false, err
	}
	unmet, err := c.causes(ctx, r, user, wanted)
	if err != nil {
		return false, err
	}
	if errs = append(append(errs, lacking...), unmet...); len(errs) > 0 {
		return refuse(errs)
	}
	r.wanted = wanted
	return c.admitted(ctx, r)
}

// target returns the target as it is to be.
func (r *restoring) target() (*v1.VirtualMachine, field.ErrorList) {
	if r.vm != nil {
		return r.kept.InPlace(r.vm, r.restore), nil
	}
	return r.kept.Anew(r.restore)
}

// nameClaims writes into the status which claims the restore makes, before any is made.
func (c *Controller) nameClaims(ctx context.Context, r *restoring) error {
	all := r.kept.Restores(r.restore)
	if equality.Semantic.DeepEqual(all, r.restore.Status.Restores) {
		return nil
	}
	return c.PatchStatus(ctx, r.restore, func() { r.restore.Status.Restores = all })
}

// keepsState reports whether a VM has EFI variables or a TPM state that outlive its pods.
func keepsState(spec *v1.VirtualMachineInstanceSpec) bool {
	tpm, firmware := spec.Domain.Devices.TPM, spec.Domain.Firmware
	return tpm != nil && ptr.Deref(tpm.Enabled, true) && ptr.Deref(tpm.Persistent, false) ||
		firmware != nil && firmware.Bootloader != nil && firmware.Bootloader.EFI != nil && ptr.Deref(firmware.Bootloader.EFI.Persistent, false)
}

// rights are those that the asker lacks to do by itself what the restore does for it.
func (c *Controller) rights(ctx context.Context, r *restoring, user authenticationv1.UserInfo) (errs field.ErrorList, err error) {
	namespace := r.restore.Namespace
	machine := authorizationv1.ResourceAttributes{Verb: "create", Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version, Resource: "virtualmachines",
		Namespace: namespace}
	if r.vm != nil {
		machine.Verb, machine.Name = "update", r.vm.Name
	}
	needed := []authorizationv1.ResourceAttributes{machine}
	if len(r.restore.Status.Restores) > 0 {
		claims := authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "persistentvolumeclaims", Namespace: namespace}
		needed = append(needed, claims)
		if claims.Verb = "delete"; replaces(r.restore) {
			needed = append(needed, claims)
		}
	}
	for _, what := range needed {
		allowed, err := c.may(ctx, user, what)
		if err != nil {
			return nil, err
		}
		if !allowed {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "target"), fmt.Sprintf("'%s', who created the restore, may not %s %s in namespace '%s'",
				user.Username, what.Verb, what.Resource, namespace)))
		}
	}
	return errs, nil
}

// replaces reports whether a restore deletes claims: all with policy InPlace, otherwise that of the state, whose name is fixed.
func replaces(restore *api.VirtualMachineRestore) bool {
	for _, of := range restore.Status.Restores {
		if inPlace(restore, of) {
			return true
		}
	}
	return false
}

func inPlace(restore *api.VirtualMachineRestore, of api.VolumeRestore) bool {
	return of.VolumeName == snapshot.State || ptr.Deref(restore.Spec.VolumeRestorePolicy, "") == api.VolumeRestorePolicyInPlace
}

// causes are why a VM may not be activated. With annotation kilnvm.io/leave-out-unavailable it loses the devices instead.
func (c *Controller) causes(
	ctx context.Context, r *restoring, user authenticationv1.UserInfo, wanted *v1.VirtualMachine,
) (errs field.ErrorList, err error) {
	s := &seeing{Controller: c, user: user, namespace: r.restore.Namespace, claims: map[string]bool{}}
	for _, of := range r.restore.Status.Restores {
		s.claims[of.PersistentVolumeClaimName] = true
	}
	if r.kept.Another(r.restore) {
		claims, _ := snapshot.Volumes(r.kept.VM)
		s.shared = map[string]bool{}
		for _, volume := range claims {
			s.shared[volume.Claim] = true
		}
	}
	needs, err := s.withClasses(ctx, snapshot.Needs(wanted))
	if err != nil {
		return nil, err
	}
	known, err := s.facts(ctx, needs)
	if err != nil {
		return nil, err
	}
	causes := snapshot.Causes(needs, known)
	if r.restore.Annotations[v1alpha1.AnnotationLeaveOut] == v1alpha1.LeaveOutUnavailable {
		r.left, causes = snapshot.LeaveOut(wanted, causes)
	}
	for _, cause := range causes {
		errs = append(errs, cause.Error())
	}
	return errs, nil
}

// admitted asks admission for the VM, before anything is changed: rules, policies and webhooks of others have their say.
func (c *Controller) admitted(ctx context.Context, r *restoring) (done bool, err error) {
	hardware, err := lifecycle.Hardware(ctx, c.Live, client.ObjectKeyFromObject(r.wanted))
	if err != nil {
		return false, err
	}
	if r.ownership(hardware) == ownership.Foreign {
		return false, c.failRestore(ctx, r, v1alpha1.ReasonHardwareForeign, ownership.ForeignMessage(hardware))
	}
	err = c.write(ctx, r, r.wanted.DeepCopy(), client.DryRunAll)
	if operation.IsRefused(err) {
		return false, c.failRestore(ctx, r, v1alpha1.ReasonNotAdmitted, err.Error())
	}
	return err == nil, err
}

// write creates or changes the target.
func (c *Controller) write(ctx context.Context, r *restoring, wanted *v1.VirtualMachine, dryRun ...client.PatchOption) error {
	if r.vm != nil {
		from := client.MergeFromWithOptions(r.vm, client.MergeFromWithOptimisticLock{})
		return c.Live.Patch(ctx, wanted, from, dryRun...)
	}
	var options []client.CreateOption
	if len(dryRun) > 0 {
		options = append(options, client.DryRunAll)
	}
	return c.Live.Create(ctx, wanted, options...)
}

// claim returns a claim, nil if there is none.
func (c *Controller) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return objects.GetOrNil(ctx, c.Live, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{})
}
