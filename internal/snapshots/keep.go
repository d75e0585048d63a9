package snapshots

import (
	"context"
	"fmt"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/quiesce"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// keep creates the content of a snapshot whose VM is locked. The record is stored before: the content names it, and from then on the collector keeps it.
func (c *Controller) keep(ctx context.Context, t taking) (time.Duration, error) {
	if name := memoryDump(t.vm); name != "" {
		return 0, c.fail(ctx, t, v1alpha1.ReasonNotSnapshottable, fmt.Sprintf("volume '%s' is a dump of the memory: the memory of a guest is no part of a "+
			"snapshot; remove the volume", name))
	}
	moment, vmi, err := hardware.ReadMoment(ctx, c.Live, t.vm)
	if err != nil {
		return 0, err
	}
	if err := c.describe(ctx, t, vmi); err != nil {
		return 0, err
	}
	record, err := moment.Record()
	if err != nil {
		return 0, c.fail(ctx, t, v1alpha1.ReasonNotSnapshottable, fmt.Sprintf("GuestHardware '%s': %v", t.vm.Name, err))
	}
	name, err := hardware.StoreRecord(ctx, c.Live, t.vm.Namespace, record)
	if err != nil {
		return 0, err
	}
	source, err := moment.Source()
	if err != nil {
		return 0, c.fail(ctx, t, v1alpha1.ReasonNotSnapshottable, err.Error())
	}
	backups, err := c.backups(ctx, t)
	if err != nil {
		return 0, err
	}
	content := &api.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.snapshot.Namespace, Name: operation.ContentName(t.snapshot.UID), Annotations: moment.Annotations(name),
			Finalizers: []string{contentFinalizer}},
		Spec: api.VirtualMachineSnapshotContentSpec{VirtualMachineSnapshotName: &t.snapshot.Name, Source: api.SourceSpec{VirtualMachine: source},
			VolumeBackups: backups},
	}
	if err := c.Live.Create(ctx, content); condition.Oversized(err) {
		return 0, c.fail(ctx, t, v1alpha1.ReasonNotSnapshottable, err.Error())
	} else if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("creating VirtualMachineSnapshotContent '%s': %w", content.Name, err)
	}
	c.RecordNormal(t.snapshot, v1alpha1.ReasonContentCreated, "created VirtualMachineSnapshotContent "+content.Name)
	return operation.NextStep, nil
}

// memoryDump is the first volume of a VM that holds its memory.
func memoryDump(vm *v1.VirtualMachine) string {
	if vm.Spec.Template == nil {
		return ""
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		if of := &vm.Spec.Template.Spec.Volumes[i]; of.MemoryDump != nil {
			return of.Name
		}
	}
	return ""
}

// describe says in the status of a snapshot how it is taken.
func (c *Controller) describe(ctx context.Context, t taking, vmi *v1.VirtualMachineInstance) error {
	var all []api.Indication
	if vmi != nil && vmi.Status.Phase == v1.Running {
		all = append(all, api.VMSnapshotOnlineSnapshotIndication)
		if quiesce.IsPaused(vmi) {
			all = append(all, api.VMSnapshotPausedIndication)
		}
	}
	return c.PatchStatus(ctx, t.snapshot, func() {
		of := t.snapshot.Status
		of.SourceUID, of.SourceIndications = &t.vm.UID, nil
		//lint:ignore SA1019 older clients read it
		of.Indications = nil
		operation.AddIndications(of, all...)
		of.Conditions = operation.SetCondition(of.Conditions, api.ConditionProgressing, operation.True(v1alpha1.ReasonInProgress, "the VM is locked, and its content is written"), c.Now())
	})
}

// backups returns the claims of a VM that can be snapshotted: those that are bound, and whose driver has a VolumeSnapshotClass.
func (c *Controller) backups(ctx context.Context, t taking) (all []api.VolumeBackup, err error) {
	if t.vm.Spec.Template == nil {
		return nil, nil
	}
	classes, err := volumesnapshot.ListClasses(ctx, c.Live)
	if err != nil || classes == nil {
		return nil, err
	}
	claims, _ := snapshot.Volumes(t.vm)
	for _, volume := range claims {
		key := types.NamespacedName{Namespace: t.vm.Namespace, Name: volume.Claim}
		claim, err := objects.GetOrNil(ctx, c.Live, key, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim == nil || claim.Status.Phase != corev1.ClaimBound || claim.Spec.StorageClassName == nil {
			continue
		}
		class, err := classes.For(ctx, c.Live, *claim.Spec.StorageClassName)
		if err != nil {
			return nil, err
		}
		if class != "" {
			all = append(all, snapshot.Backup(t.snapshot.UID, volume, claim))
		}
	}
	return all, nil
}
