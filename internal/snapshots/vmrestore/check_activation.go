package vmrestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/authorization"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/snapshot"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// checkActivation checks whether the snapshot may be activated, and sets what the target becomes. It runs in each reconcile until the target is written,
// because objects may be deleted at any time. If the snapshot may not be activated, the restore fails with all causes.
type checkActivation struct {
	*operation.Cluster
	configuration func() config.Cluster
}

func (c checkActivation) Run(ctx context.Context, s *state) (operation.Result, error) {
	user, err := operation.CreatorOf(s.restore)
	if err != nil {
		return operation.Result{}, failBecause(v1alpha1.ReasonMalformed, err.Error())
	}
	recordMistakes, err := hardware.LoadRecord(ctx, c.Live, &s.kept)
	if err != nil {
		return operation.Result{}, err
	}
	claimMistakes, err := s.claimNameMistakes(ctx, c.Live)
	if err != nil {
		return operation.Result{}, err
	}
	wanted, targetMistakes := s.makeTarget()
	missingRights, err := c.missingRights(ctx, s, user)
	if err != nil {
		return operation.Result{}, err
	}
	missingObjects, err := c.missingObjects(ctx, s, user, wanted)
	if err != nil {
		return operation.Result{}, err
	}
	if errs := slices.Concat(recordMistakes, targetMistakes, claimMistakes, cloneMistakes(s, wanted), missingRights, missingObjects); len(errs) > 0 {
		return operation.Result{}, failBecause(v1alpha1.ReasonNotActivatable, condition.Mistakes(errs))
	}
	s.wanted = wanted
	return operation.Done(), nil
}

// makeTarget returns the target as it is after the restore.
func (s *state) makeTarget() (*v1.VirtualMachine, field.ErrorList) {
	if s.vm != nil {
		return s.kept.InPlace(s.vm, s.restore), nil
	}
	return s.kept.Anew(s.restore)
}

// cloneMistakes returns why a snapshot cannot be restored into another VM.
func cloneMistakes(s *state, wanted *v1.VirtualMachine) (errs field.ErrorList) {
	if !s.kept.Another(s.restore) {
		return nil
	}
	if ptr.Deref(s.restore.Spec.VolumeRestorePolicy, "") == api.VolumeRestorePolicyInPlace {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeRestorePolicy"), "InPlace replaces the claims of the VM of the snapshot, which may be "+
			"running: use another policy to restore into another VM"))
	}
	if hasPersistentState(&wanted.Spec.Template.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "target", "name"), "the VM of the snapshot keeps EFI variables or the state of a TPM, which "+
			"may not be in two VMs: restore it under its own name"))
	}
	return errs
}

// hasPersistentState reports whether a VM has EFI variables or a TPM state that outlive its pods.
func hasPersistentState(spec *v1.VirtualMachineInstanceSpec) bool {
	tpm, firmware := spec.Domain.Devices.TPM, spec.Domain.Firmware
	return tpm != nil && ptr.Deref(tpm.Enabled, true) && ptr.Deref(tpm.Persistent, false) ||
		firmware != nil && firmware.Bootloader != nil && firmware.Bootloader.EFI != nil && ptr.Deref(firmware.Bootloader.EFI.Persistent, false)
}

// missingRights returns which rights the creator of the restore lacks. The restore does nothing that its creator may not do.
func (c checkActivation) missingRights(ctx context.Context, s *state, user authenticationv1.UserInfo) (errs field.ErrorList, err error) {
	namespace := s.restore.Namespace
	vm := authorizationv1.ResourceAttributes{Verb: "create", Group: v1.GroupVersion.Group, Version: v1.GroupVersion.Version, Resource: "virtualmachines",
		Namespace: namespace}
	if s.vm != nil {
		vm.Verb, vm.Name = "update", s.vm.Name
	}
	needed := []authorizationv1.ResourceAttributes{vm}
	if len(s.restore.Status.Restores) > 0 {
		claims := authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "persistentvolumeclaims", Namespace: namespace}
		needed = append(needed, claims)
		if claims.Verb = "delete"; slices.ContainsFunc(s.restore.Status.Restores, s.replacesClaim) {
			needed = append(needed, claims)
		}
		deletes, err := c.deletesDataVolumes(ctx, s)
		if err != nil {
			return nil, err
		}
		if deletes {
			needed = append(needed, deletionOfDataVolumes(namespace))
		}
	}
	for _, access := range needed {
		allowed, err := authorization.IsAllowed(ctx, c.Live, user, access)
		if err != nil {
			return nil, err
		}
		if !allowed {
			errs = append(errs, missingRight(user, access))
		}
	}
	return errs, nil
}

func missingRight(user authenticationv1.UserInfo, access authorizationv1.ResourceAttributes) *field.Error {
	return field.Forbidden(field.NewPath("spec", "target"), fmt.Sprintf("'%s', who created the restore, may not %s %s in namespace '%s'",
		user.Username, access.Verb, access.Resource, access.Namespace))
}

// deletesDataVolumes reports whether the restore replaces a claim that a DataVolume made.
func (c checkActivation) deletesDataVolumes(ctx context.Context, s *state) (bool, error) {
	for _, restored := range s.restore.Status.Restores {
		if !s.replacesClaim(restored) {
			continue
		}
		claim, err := getClaim(ctx, c.Live, s.restore.Namespace, restored.PersistentVolumeClaimName)
		if err != nil {
			return false, err
		}
		if claim != nil && !s.isOwnClaim(claim) && dataVolumeOf(claim) != nil {
			return true, nil
		}
	}
	return false, nil
}

// deletionOfDataVolumes is the right to delete the DataVolumes of a namespace.
func deletionOfDataVolumes(namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "delete", Group: cdi.SchemeGroupVersion.Group, Version: cdi.SchemeGroupVersion.Version,
		Resource: "datavolumes", Namespace: namespace}
}

// missingObjects returns which objects the VM needs and does not find. With the annotation kilnvm.io/leave-out-unavailable the VM loses the devices instead.
func (c checkActivation) missingObjects(
	ctx context.Context, s *state, user authenticationv1.UserInfo, wanted *v1.VirtualMachine,
) (errs field.ErrorList, err error) {
	facts := &restoreFacts{live: c.Live, configuration: c.configuration(), user: user, namespace: s.restore.Namespace, claims: map[string]bool{}}
	for _, restored := range s.restore.Status.Restores {
		facts.claims[restored.PersistentVolumeClaimName] = true
	}
	if s.kept.Another(s.restore) {
		volumes, _ := snapshot.Volumes(s.kept.VM)
		facts.shared = map[string]bool{}
		for _, volume := range volumes {
			facts.shared[volume.Claim] = true
		}
	}
	needs, err := facts.withDeviceClasses(ctx, snapshot.Needs(wanted))
	if err != nil {
		return nil, err
	}
	known, err := facts.readFacts(ctx, needs)
	if err != nil {
		return nil, err
	}
	causes := snapshot.Causes(needs, known)
	if s.restore.Annotations[v1alpha1.AnnotationLeaveOut] == v1alpha1.LeaveOutUnavailable {
		s.leftOut, causes = snapshot.LeaveOut(wanted, causes)
	}
	for _, cause := range causes {
		errs = append(errs, cause.Error())
	}
	return errs, nil
}
