// Package vmsnapshot takes VirtualMachineSnapshots: it locks the VM, creates the content, freezes the guest while VolumeSnapshots of its volumes are
// taken, and unlocks the VM.
//
// Each step is one write, and the stored objects show which step is next: another process continues if this one dies.
package vmsnapshot

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/vmlock"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// finalizer is KubeVirt's finalizer of VirtualMachineSnapshots.
const finalizer = "snapshot.kubevirt.io/vmsnapshot-protection"

// Reconciler reconciles VirtualMachineSnapshots.
type Reconciler struct {
	statusWriter
	orphans  *vmlock.OrphanReconciler
	quiescer *quiesce.Quiescer
	// take are the steps of a snapshot that has neither succeeded nor failed.
	take steps
	// The others are the steps afterwards.
	afterSuccess, afterFailure, finalize steps
}

type steps = operation.Steps[*state]

// state is a snapshot with the objects that it refers to.
type state struct {
	snapshot *api.VirtualMachineSnapshot
	// content and vm are nil if they do not exist.
	content *api.VirtualMachineSnapshotContent
	vm      *v1.VirtualMachine
}

// New returns a reconciler.
func New(cluster *operation.Cluster, orphans *vmlock.OrphanReconciler, quiescer *quiesce.Quiescer) *Reconciler {
	status, volumes := statusWriter{cluster}, volumesnapshot.Contents{Cluster: cluster}
	lock, freeze := vmLock{status, orphans.Locker}, guestFreeze{quiescer}
	ready, deletion := readiness{status, volumes}, deletion{cluster}
	return &Reconciler{
		statusWriter: status, orphans: orphans, quiescer: quiescer,
		take: steps{
			checkSnapshot{status}.Run, lock.lockVM, createContent{status}.Run, freeze.freezeGuest, takeVolumeSnapshots{status, volumes}.Run, freeze.thawGuest,
			complete{status}.Run,
		},
		afterSuccess: steps{lock.unlockVM, ready.updateReadiness, freeze.retryThaw, ready.waitUntilReady},
		afterFailure: steps{freeze.thawGuest, lock.unlockVM, deletion.deleteContent},
		finalize:     steps{freeze.thawGuest, lock.unlockVM, deletion.deleteContent, deletion.removeFinalizer},
	}
}

// Reconcile takes the next steps of a VirtualMachineSnapshot.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	found, err := objects.GetOrNil(ctx, r.Live, key, &api.VirtualMachineSnapshot{})
	if err != nil {
		return 0, err
	} else if found == nil {
		return 0, r.orphans.UnlockAll(ctx, key)
	}
	s := &state{snapshot: found}
	contentKey := types.NamespacedName{Namespace: key.Namespace, Name: operation.ContentName(found.UID)}
	if s.content, err = objects.GetOrNil(ctx, r.Live, contentKey, &api.VirtualMachineSnapshotContent{}); err != nil {
		return 0, err
	}
	vmKey := types.NamespacedName{Namespace: key.Namespace, Name: found.Spec.Source.Name}
	if s.vm, err = objects.GetOrNil(ctx, r.Live, vmKey, &v1.VirtualMachine{}); err != nil {
		return 0, err
	}
	hasFinalizer := controllerutil.ContainsFinalizer(found, finalizer)
	switch phase := operation.PhaseOf(found); {
	case found.DeletionTimestamp != nil && !hasFinalizer:
		return 0, nil
	case found.DeletionTimestamp != nil:
		return r.finalize.Reconcile(ctx, s)
	case phase == api.Failed:
		return r.afterFailure.Reconcile(ctx, s)
	case phase == api.Succeeded:
		return r.afterSuccess.Reconcile(ctx, s)
	case !hasFinalizer:
		return operation.NextStep, r.Patch(ctx, found, func() { controllerutil.AddFinalizer(found, finalizer) })
	}
	after, err := r.take.Reconcile(ctx, s)
	if !operation.IsRefused(err) || found.Status == nil {
		return after, err
	}
	return r.waitForAdmission(ctx, s, err)
}

// waitForAdmission reports that the API server refuses an object which the snapshot consists of, because of a quota, a policy or a webhook. Somebody may
// change that within the failureDeadline. Meanwhile the guest is not frozen.
func (r *Reconciler) waitForAdmission(ctx context.Context, s *state, refusal error) (time.Duration, error) {
	if done, err := r.quiescer.Thaw(ctx, s.snapshot, s.content); err != nil || !done {
		return quiesce.RequestPoll, err
	}
	progressing := operation.FindCondition(s.snapshot.Status.Conditions, api.ConditionProgressing)
	first := progressing != nil && progressing.Reason != v1alpha1.ReasonNotAdmitted
	write := r.reportProgress(ctx, s, operation.ConditionFalse(v1alpha1.ReasonNotAdmitted, refusal.Error()))
	if first {
		write = r.WarnAfterWrite(write, s.snapshot, v1alpha1.ReasonNotAdmitted, refusal.Error())
	}
	return r.pollDelay(s), write
}
