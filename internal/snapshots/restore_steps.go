package snapshots

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopped waits for the target to have no VMI, as the readiness policy says. done reports that it has none.
func (c *Controller) stopped(ctx context.Context, r *restoring) (after time.Duration, done bool, err error) {
	if r.vm == nil {
		return 0, true, nil
	}
	vmi, err := objects.GetOrNil(ctx, c.Live, client.ObjectKeyFromObject(r.vm), &v1.VirtualMachineInstance{})
	if err != nil || vmi == nil {
		return 0, err == nil, err
	}
	if r.restored() && !vmlock.IsLockedForRestore(r.vm, r.restore.Name) { // it was let go, and started: only the status of the restore is missing
		return 0, true, nil
	}
	if r.restored() { // somebody started it between the last look and the lock: it was made of the VM before
		return operation.PollInterval, false, client.IgnoreNotFound(c.Live.Delete(ctx, vmi, client.Preconditions{UID: &vmi.UID}))
	}
	text := fmt.Sprintf("VirtualMachineInstance '%s' exists: stop the VM", vmi.Name)
	switch ptr.Deref(r.restore.Spec.TargetReadinessPolicy, api.VirtualMachineRestoreWaitGracePeriodAndFail) {
	case api.VirtualMachineRestoreFailImmediate:
		return 0, false, c.failRestore(ctx, r, v1alpha1.ReasonTargetNotReady, text)
	case api.VirtualMachineRestoreStopTarget:
		return c.stop(ctx, r, vmi)
	case api.VirtualMachineRestoreWaitEventually:
	default:
		if operation.TimeSince(r.restore.Status.Conditions, api.ConditionReady, c.Now()) > api.DefaultGracePeriod {
			return 0, false, c.failRestore(ctx, r, v1alpha1.ReasonTargetNotReady, fmt.Sprintf("%s; it was not stopped within %s", text, api.DefaultGracePeriod))
		}
		text += fmt.Sprintf(" within %s", api.DefaultGracePeriod)
	}
	after = operation.Backoff(operation.TimeSince(r.restore.Status.Conditions, api.ConditionReady, c.Now()))
	return after, false, c.restoreProgress(ctx, r, operation.False(v1alpha1.ReasonTargetNotReady, text))
}

// stop stops the target of a restore that says so, once all is judged: a restore that is refused, or has to wait, leaves the guest running.
func (c *Controller) stop(ctx context.Context, r *restoring, vmi *v1.VirtualMachineInstance) (after time.Duration, done bool, err error) {
	why, err := c.read(ctx, r)
	if err == nil && why == nil {
		if busy := vmlock.BlockedForRestore(r.vm, r.restore.Name); busy != "" {
			why = &unready{v1alpha1.ReasonSourceBusy, busy, false}
		}
	}
	if err != nil || why != nil {
		after, err = c.unread(ctx, r, why, err)
		return after, false, err
	}
	if may, err := c.judge(ctx, r); !may {
		return 0, false, err
	}
	if err := c.stopTarget(ctx, r, vmi); err != nil {
		return 0, false, err
	}
	text := fmt.Sprintf("VirtualMachineInstance '%s' is being stopped", vmi.Name)
	after = operation.Backoff(operation.TimeSince(r.restore.Status.Conditions, api.ConditionReady, c.Now()))
	return after, false, c.restoreProgress(ctx, r, operation.False(v1alpha1.ReasonTargetNotReady, text))
}

// stopTarget stops a VM as 'virtctl stop' does.
func (c *Controller) stopTarget(ctx context.Context, r *restoring, vmi *v1.VirtualMachineInstance) error {
	if vmi.DeletionTimestamp != nil {
		return nil
	}
	strategy, err := r.vm.RunStrategy()
	if err != nil {
		return err
	}
	if strategy == v1.RunStrategyManual || strategy == v1.RunStrategyRerunOnFailure {
		asked := func(q v1.VirtualMachineStateChangeRequest) bool {
			return q.Action == v1.StopRequest && q.UID != nil && *q.UID == vmi.UID
		}
		if slices.ContainsFunc(r.vm.Status.StateChangeRequests, asked) {
			return nil
		}
		return c.PatchStatus(ctx, r.vm, func() {
			r.vm.Status.StateChangeRequests = []v1.VirtualMachineStateChangeRequest{{Action: v1.StopRequest, UID: &vmi.UID}}
		})
	}
	return c.Patch(ctx, r.vm, func() {
		if r.vm.Spec.Running != nil { //nolint:staticcheck // the owner uses the deprecated field
			r.vm.Spec.Running = new(bool) //nolint:staticcheck // as above
		} else {
			r.vm.Spec.RunStrategy = ptr.To(v1.RunStrategyHalted)
		}
	})
}

// volumes makes the claims of a restore from VolumeSnapshots. done reports that all are bound, or will be when a pod uses them.
func (c *Controller) volumes(ctx context.Context, r *restoring) (after time.Duration, done bool, err error) {
	pending := false
	for _, of := range r.restore.Status.Restores {
		claim, err := c.claim(ctx, r.restore.Namespace, of.PersistentVolumeClaimName)
		if err != nil {
			return 0, false, err
		}
		switch {
		case claim == nil:
			if err := c.createClaim(ctx, r, of); err != nil || operation.HasFailed(r.restore.Status.Conditions) {
				return 0, false, err
			}
			pending = true
		case claim.Annotations[snapshot.Mark] == snapshot.MarkOf(r.restore):
			waits, err := c.waits(ctx, claim)
			if err != nil {
				return 0, false, err
			}
			pending = pending || waits
		case !r.takes(of, claim):
			return 0, false, c.failRestore(ctx, r, v1alpha1.ReasonTargetExists, claimExists(claim.Name))
		default:
			pending = true
			if err := client.IgnoreNotFound(c.Live.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})); err != nil {
				return 0, false, err
			}
		}
	}
	if !pending {
		return 0, true, nil
	}
	after = operation.Backoff(operation.TimeSince(r.restore.Status.Conditions, api.ConditionReady, c.Now()))
	return after, false, c.restoreProgress(ctx, r, operation.True(v1alpha1.ReasonVolumesPending, "waits for the restored claims"))
}

// replaces reports whether a restore in place may delete a claim: that which the snapshot was taken of and no other that has the name of an override, or the
// target's own for EFI variables and TPM state.
func (r *restoring) replaces(of api.VolumeRestore, claim *corev1.PersistentVolumeClaim) bool {
	backup := r.kept.Backup(of.VolumeName)
	return of.VolumeName == snapshot.State || backup != nil && claim.Name == backup.PersistentVolumeClaim.Name
}

// createClaim makes one claim.
func (c *Controller) createClaim(ctx context.Context, r *restoring, of api.VolumeRestore) error {
	backup := r.kept.Backup(of.VolumeName)
	size, err := volumesnapshot.RestoreSize(ctx, c.Live, types.NamespacedName{Namespace: r.restore.Namespace, Name: of.VolumeSnapshotName})
	if apierrors.IsNotFound(err) {
		return c.failRestore(ctx, r, v1alpha1.ReasonVolumeSnapshots, fmt.Sprintf("VolumeSnapshot '%s' of volume '%s' is gone", of.VolumeSnapshotName, of.VolumeName))
	}
	if err != nil {
		return err
	}
	claim := snapshot.RestoredClaim(r.restore, of, backup, size, r.owner(backup))
	if r.vm == nil && r.owns(backup) {
		claim.Annotations[ownedLater] = r.restore.Name
	}
	if err := c.Live.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating PersistentVolumeClaim '%s': %w", claim.Name, err)
	}
	return nil
}

// ownedLater is KubeVirt's annotation of claims that are made before the VM that is to own them. Its value is the name of the restore.
const ownedLater = "restore.kubevirt.io/owned-by-vm"

// owner is the VM, for a claim that belonged to the VM of the snapshot. A target that does not exist yet owns its claims when it does (settle).
func (r *restoring) owner(of *api.VolumeBackup) *metav1.OwnerReference {
	if r.vm == nil || !r.owns(of) {
		return nil
	}
	return ownedBy(r.vm)
}

func (r *restoring) owns(of *api.VolumeBackup) bool {
	if ptr.Deref(r.restore.Spec.VolumeOwnershipPolicy, api.VolumeOwnershipPolicyVm) == api.VolumeOwnershipPolicyNone {
		return false
	}
	return slices.ContainsFunc(of.PersistentVolumeClaim.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == r.kept.VM.UID })
}

// waits reports whether a claim is to be bound without a pod.
func (c *Controller) waits(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Status.Phase == corev1.ClaimBound {
		return false, nil
	}
	class, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Name: ptr.Deref(claim.Spec.StorageClassName, "")}, &storagev1.StorageClass{})
	if err != nil || class == nil {
		return true, err
	}
	return ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingImmediate, nil
}

// taken returns why claims of a restore cannot have the names that it gives them: two have one, or there is a claim that the restore may not replace.
func (c *Controller) taken(ctx context.Context, r *restoring) (errs field.ErrorList, err error) {
	at, seen := field.NewPath("spec", "volumeRestoreOverrides"), map[string]string{}
	for _, of := range r.restore.Status.Restores {
		name := of.PersistentVolumeClaimName
		if other, twice := seen[name]; twice {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("volumes '%s' and '%s' would both have PersistentVolumeClaim '%s'", other, of.VolumeName, name)))
		}
		seen[name] = of.VolumeName
		claim, err := c.claim(ctx, r.restore.Namespace, name)
		switch {
		case err != nil:
			return nil, err
		case claim != nil && !r.takes(of, claim):
			errs = append(errs, field.Forbidden(at, claimExists(name)))
		}
	}
	return errs, nil
}

// takes reports whether a claim is the restore's own, or one that it may replace.
func (r *restoring) takes(of api.VolumeRestore, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[snapshot.Mark] == snapshot.MarkOf(r.restore) || inPlace(r.restore, of) && r.replaces(of, claim)
}

func claimExists(name string) string {
	return fmt.Sprintf("PersistentVolumeClaim '%s' exists: delete it, or choose another name in spec.volumeRestoreOverrides", name)
}
