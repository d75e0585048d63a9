package vmrestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/authorization"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownedLaterAnnotation is KubeVirt's annotation of claims that are created before the VM that is to own them. Its value is the name of the restore.
const ownedLaterAnnotation = "restore.kubevirt.io/owned-by-vm"

func getClaim(ctx context.Context, reader client.Reader, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return objects.GetOrNil(ctx, reader, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.PersistentVolumeClaim{})
}

// claimCreation creates the claims of a restore.
type claimCreation struct{ statusWriter }

// nameClaims writes into the status which claims the restore creates, before it creates any.
func (c claimCreation) nameClaims(ctx context.Context, s *state) (operation.Result, error) {
	claims := s.kept.Restores(s.restore)
	if equality.Semantic.DeepEqual(claims, s.restore.Status.Restores) {
		return operation.Done(), nil
	}
	return operation.Done(), c.PatchStatus(ctx, s.restore, func() { s.restore.Status.Restores = claims })
}

// createClaims creates the claims of the restore from VolumeSnapshots. It is done when all claims are bound, or will be bound when a pod uses them.
func (c claimCreation) createClaims(ctx context.Context, s *state) (operation.Result, error) {
	pending := false
	for _, restored := range s.restore.Status.Restores {
		claim, err := getClaim(ctx, c.Live, s.restore.Namespace, restored.PersistentVolumeClaimName)
		if err != nil {
			return operation.Result{}, err
		}
		switch {
		case claim == nil:
			if err := c.createClaim(ctx, s, restored); err != nil {
				return operation.Result{}, err
			}
			pending = true
		case s.isOwnClaim(claim):
			binding, err := c.bindsWithoutPod(ctx, claim)
			if err != nil {
				return operation.Result{}, err
			}
			pending = pending || binding
		case !s.mayUse(restored, claim):
			return operation.Result{}, failBecause(v1alpha1.ReasonTargetExists, claimExistsMessage(claim.Name))
		default:
			pending = true
			if err := c.deleteDataVolumeOf(ctx, s, claim); err != nil {
				return operation.Result{}, err
			}
			if err := objects.DeleteSame(ctx, c.Live, claim); err != nil {
				return operation.Result{}, err
			}
		}
	}
	if !pending {
		return operation.Done(), nil
	}
	waiting := operation.ConditionTrue(v1alpha1.ReasonVolumesPending, "waits for the restored claims")
	return operation.RetryAfter(c.pollDelay(s)), c.reportProgress(ctx, s, waiting)
}

// deleteDataVolumeOf deletes the DataVolume that made a claim, if one did: CDI makes the claim of a DataVolume again, which would take the name of the restored
// one. The creator of the restore must have the right, which is asked for again because the claim may have changed since the activation was checked.
func (c claimCreation) deleteDataVolumeOf(ctx context.Context, s *state, claim *corev1.PersistentVolumeClaim) error {
	owner := dataVolumeOf(claim)
	if owner == nil {
		return nil
	}
	user, err := operation.CreatorOf(s.restore)
	if err != nil {
		return failBecause(v1alpha1.ReasonMalformed, err.Error())
	}
	access := deletionOfDataVolumes(claim.Namespace)
	access.Name = owner.Name
	allowed, err := authorization.IsAllowed(ctx, c.Live, user, access)
	switch {
	case err != nil:
		return err
	case !allowed:
		return failBecause(v1alpha1.ReasonNotActivatable, missingRight(user, access).Error())
	}
	volume := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: owner.Name}}
	volume.SetGroupVersionKind(cdi.SchemeGroupVersion.WithKind("DataVolume"))
	err = c.Live.Delete(ctx, volume, client.Preconditions{UID: &owner.UID})
	if apierrors.IsConflict(err) || meta.IsNoMatchError(err) { // another DataVolume has the name now, or CDI was uninstalled
		return nil
	}
	return client.IgnoreNotFound(err)
}

// dataVolumeOf returns the owner reference of a claim to the DataVolume that made it; nil if none did.
func dataVolumeOf(claim *corev1.PersistentVolumeClaim) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(claim)
	if owner == nil || owner.Kind != "DataVolume" {
		return nil
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != cdi.SchemeGroupVersion.Group {
		return nil
	}
	return owner
}

func (c claimCreation) createClaim(ctx context.Context, s *state, restored api.VolumeRestore) error {
	backup := s.kept.Backup(restored.VolumeName)
	size, err := volumesnapshot.RestoreSize(ctx, c.Live, types.NamespacedName{Namespace: s.restore.Namespace, Name: restored.VolumeSnapshotName})
	if apierrors.IsNotFound(err) {
		return failBecause(v1alpha1.ReasonVolumeSnapshots,
			fmt.Sprintf("VolumeSnapshot '%s' of volume '%s' is gone", restored.VolumeSnapshotName, restored.VolumeName))
	}
	if err != nil {
		return err
	}
	var owner *metav1.OwnerReference
	owned := s.isOwnedByVM(backup)
	if owned && s.vm != nil {
		owner = ownerReference(s.vm)
	}
	claim := snapshot.RestoredClaim(s.restore, restored, backup, size, owner)
	if owned && s.vm == nil { // the step finish sets the owner
		claim.Annotations[ownedLaterAnnotation] = s.restore.Name
	}
	if err := c.Live.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating PersistentVolumeClaim '%s': %w", claim.Name, err)
	}
	return nil
}

// bindsWithoutPod reports whether a claim is not bound yet, and is going to be bound without a pod that uses it.
func (c claimCreation) bindsWithoutPod(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Status.Phase == corev1.ClaimBound {
		return false, nil
	}
	key := types.NamespacedName{Name: ptr.Deref(claim.Spec.StorageClassName, "")}
	class, err := objects.GetOrNil(ctx, c.Live, key, &storagev1.StorageClass{})
	if err != nil || class == nil {
		return true, err
	}
	return ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingImmediate, nil
}

// isOwnedByVM reports whether the target owns the claim of a backup: the VM of the snapshot owned it, or the DataVolume of one of its dataVolumeTemplates did,
// and spec.volumeOwnershipPolicy does not say None.
func (s *state) isOwnedByVM(backup *api.VolumeBackup) bool {
	if ptr.Deref(s.restore.Spec.VolumeOwnershipPolicy, api.VolumeOwnershipPolicyVm) == api.VolumeOwnershipPolicyNone {
		return false
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: backup.PersistentVolumeClaim.ObjectMeta}
	if owner := dataVolumeOf(claim); owner != nil {
		return slices.ContainsFunc(s.kept.VM.Spec.DataVolumeTemplates, func(template v1.DataVolumeTemplateSpec) bool { return template.Name == owner.Name })
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == s.kept.VM.UID })
}

// isOwnClaim reports whether this restore has created a claim.
func (s *state) isOwnClaim(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[snapshot.Mark] == snapshot.MarkOf(s.restore)
}

// mayUse reports whether this restore has created a claim, or may replace it.
func (s *state) mayUse(restored api.VolumeRestore, claim *corev1.PersistentVolumeClaim) bool {
	return s.isOwnClaim(claim) || s.replacesClaim(restored) && s.isReplaceable(restored, claim)
}

// isReplaceable reports whether a restore in place may delete a claim: the claim that the snapshot was taken of, but no other claim with the name of an
// override; and the claim of the target for EFI variables and TPM state.
func (s *state) isReplaceable(restored api.VolumeRestore, claim *corev1.PersistentVolumeClaim) bool {
	backup := s.kept.Backup(restored.VolumeName)
	return restored.VolumeName == snapshot.State || backup != nil && claim.Name == backup.PersistentVolumeClaim.Name
}

// replacesClaim reports whether the restore replaces the claim of a volume: the claim of EFI variables and TPM state, whose name is fixed, and with the policy
// InPlace all claims.
func (s *state) replacesClaim(restored api.VolumeRestore) bool {
	return restored.VolumeName == snapshot.State || ptr.Deref(s.restore.Spec.VolumeRestorePolicy, "") == api.VolumeRestorePolicyInPlace
}

// claimNameMistakes returns why claims of a restore cannot have the names that it gives them: two of them have one name, or another claim has the name.
func (s *state) claimNameMistakes(ctx context.Context, reader client.Reader) (errs field.ErrorList, err error) {
	at, volumes := field.NewPath("spec", "volumeRestoreOverrides"), map[string]string{}
	for _, restored := range s.restore.Status.Restores {
		name := restored.PersistentVolumeClaimName
		if other, twice := volumes[name]; twice {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("volumes '%s' and '%s' would both have PersistentVolumeClaim '%s'",
				other, restored.VolumeName, name)))
		}
		volumes[name] = restored.VolumeName
		claim, err := getClaim(ctx, reader, s.restore.Namespace, name)
		switch {
		case err != nil:
			return nil, err
		case claim != nil && !s.mayUse(restored, claim):
			errs = append(errs, field.Forbidden(at, claimExistsMessage(name)))
		}
	}
	return errs, nil
}

func claimExistsMessage(name string) string {
	return fmt.Sprintf("PersistentVolumeClaim '%s' exists: delete it, or choose another name in spec.volumeRestoreOverrides", name)
}
