package vmrestore

import (
	"context"
	"errors"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// finish ends a restore whose target is written: it applies the hardware, unlocks the target, and completes the status.
type finish struct {
	statusWriter
	locker   *vmlock.Locker
	snapshot readSnapshot
}

func (f finish) Run(ctx context.Context, s *state) (operation.Result, error) {
	if !s.isWritten() {
		return operation.Done(), nil
	}
	if s.hasLock() {
		// The hardware is read again after each write: a guest that was started a moment before the lock may have changed it.
		written, mistakes, err := f.applyHardware(ctx, s)
		switch {
		case err != nil || written:
			return operation.RetryAfter(operation.NextStep), err
		case len(mistakes) > 0:
			notActivatable := operation.ConditionFalse(v1alpha1.ReasonNotActivatable, condition.Mistakes(mistakes))
			return operation.RetryAfter(operation.PollInterval), f.reportProgress(ctx, s, notActivatable)
		}
	}
	if err := f.ownClaims(ctx, s); err != nil {
		return operation.Result{}, err
	}
	if err := f.locker.UnlockFromRestore(ctx, s.vm, s.restore.Name); err != nil {
		return operation.Result{}, err
	}
	write := operation.CountSuccess(operation.Restore, f.PatchStatus(ctx, s.restore, func() {
		status, now := s.restore.Status, metav1.NewTime(f.Now().Truncate(time.Second))
		status.Complete, status.RestoreTime = ptr.To(true), &now
		const text = "the restore is complete"
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, operation.ConditionFalse(v1alpha1.ReasonCompleted, text), f.Now())
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionReady, operation.ConditionTrue(v1alpha1.ReasonCompleted, text), f.Now())
	}))
	if write != nil {
		return operation.Result{}, write
	}
	if changed := operation.FindCondition(s.restore.Status.Conditions, v1alpha1.ConditionHardwareChanged); changed != nil {
		f.RecordWarning(s.restore, v1alpha1.ReasonHardwareChanged, changed.Message)
	}
	f.RecordNormal(s.restore, v1alpha1.ReasonRestoreComplete, "restored VirtualMachine "+s.vm.Name)
	return operation.Wait(), nil
}

// applyHardware gives the target the hardware that belongs to its spec. An annotation of the target names the record. If somebody has removed the
// annotation, the snapshot names it. If the snapshot is gone, too, the hardware stays as it is.
func (f finish) applyHardware(ctx context.Context, s *state) (written bool, mistakes field.ErrorList, err error) {
	record, has := s.vm.Annotations[v1alpha1.AnnotationRecord]
	if !has {
		blocked := (*blockedError)(nil)
		if _, err := f.snapshot.Run(ctx, s); errors.As(err, &blocked) {
			return false, nil, nil
		} else if err != nil {
			return false, nil, err
		}
		record = s.kept.Revision
	}
	return f.hardware.ApplyRevision(ctx, s.vm, record)
}

// ownClaims gives the target the claims that were created before it.
func (f finish) ownClaims(ctx context.Context, s *state) error {
	for _, restored := range s.restore.Status.Restores {
		claim, err := getClaim(ctx, f.Live, s.restore.Namespace, restored.PersistentVolumeClaimName)
		if err != nil {
			return err
		}
		if claim == nil || claim.Annotations[ownedLaterAnnotation] != s.restore.Name {
			continue
		}
		err = f.Patch(ctx, claim, func() {
			delete(claim.Annotations, ownedLaterAnnotation)
			if len(claim.OwnerReferences) == 0 {
				claim.OwnerReferences = []metav1.OwnerReference{*ownerReference(s.vm)}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
