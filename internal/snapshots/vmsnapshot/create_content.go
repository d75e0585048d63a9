package vmsnapshot

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/hardware"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	"github.com/kilnvm/kiln/internal/snapshots/volumesnapshot"
	"github.com/kilnvm/kiln/pkg/snapshot"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// createContent creates the content of a snapshot whose VM is locked. The hardware record is stored before, because the content names its revision. From
// then on the collector of revisions keeps it.
type createContent struct{ statusWriter }

func (c createContent) Run(ctx context.Context, s *state) (operation.Result, error) {
	if s.content != nil {
		return operation.Done(), nil
	}
	if name := memoryDumpVolume(s.vm); name != "" {
		return c.failSnapshot(ctx, s, v1alpha1.ReasonNotSnapshottable, fmt.Sprintf("volume '%s' is a memory dump: a snapshot does not contain the memory of a "+
			"guest; remove the volume", name))
	}
	moment, vmi, err := hardware.ReadMoment(ctx, c.Live, s.vm)
	if err != nil {
		return operation.Result{}, err
	}
	if err := c.reportSource(ctx, s, vmi); err != nil {
		return operation.Result{}, err
	}
	record, err := moment.Record()
	if err != nil {
		return c.failSnapshot(ctx, s, v1alpha1.ReasonNotSnapshottable, fmt.Sprintf("GuestHardware '%s': %v", s.vm.Name, err))
	}
	revision, err := hardware.StoreRecord(ctx, c.Live, s.vm.Namespace, record)
	if err != nil {
		return operation.Result{}, err
	}
	source, err := moment.Source()
	if err != nil {
		return c.failSnapshot(ctx, s, v1alpha1.ReasonNotSnapshottable, err.Error())
	}
	backups, err := c.volumeBackups(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	content := &api.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.snapshot.Namespace, Name: operation.ContentName(s.snapshot.UID),
			Annotations: moment.Annotations(revision), Finalizers: []string{contentFinalizer}},
		Spec: api.VirtualMachineSnapshotContentSpec{VirtualMachineSnapshotName: &s.snapshot.Name, Source: api.SourceSpec{VirtualMachine: source},
			VolumeBackups: backups},
	}
	switch err := c.Live.Create(ctx, content); {
	case condition.Oversized(err):
		return c.failSnapshot(ctx, s, v1alpha1.ReasonNotSnapshottable, err.Error())
	case err == nil:
		c.RecordNormal(s.snapshot, v1alpha1.ReasonContentCreated, "created VirtualMachineSnapshotContent "+content.Name)
	case !apierrors.IsAlreadyExists(err):
		return operation.Result{}, fmt.Errorf("creating VirtualMachineSnapshotContent '%s': %w", content.Name, err)
	}
	return operation.RetryAfter(operation.NextStep), nil
}

// memoryDumpVolume returns the name of the first volume of a VM that contains a dump of its memory.
func memoryDumpVolume(vm *v1.VirtualMachine) string {
	if vm.Spec.Template == nil {
		return ""
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		if volume := &vm.Spec.Template.Spec.Volumes[i]; volume.MemoryDump != nil {
			return volume.Name
		}
	}
	return ""
}

// reportSource writes into the status which VM is snapshotted, and whether its guest runs. The VMI is nil if it does not exist.
func (c createContent) reportSource(ctx context.Context, s *state, vmi *v1.VirtualMachineInstance) error {
	var indications []api.Indication
	if vmi != nil && vmi.Status.Phase == v1.Running {
		indications = append(indications, api.VMSnapshotOnlineSnapshotIndication)
		if condition.IsTrue(vmi, v1.VirtualMachineInstancePaused) {
			indications = append(indications, api.VMSnapshotPausedIndication)
		}
	}
	return c.PatchStatus(ctx, s.snapshot, func() {
		status := s.snapshot.Status
		status.SourceUID, status.SourceIndications = &s.vm.UID, nil
		//nolint:staticcheck // older clients read the deprecated field
		status.Indications = nil
		operation.AddIndications(status, indications...)
		locked := operation.ConditionTrue(v1alpha1.ReasonInProgress, "the VM is locked, and the content is created")
		status.Conditions = operation.SetCondition(status.Conditions, api.ConditionProgressing, locked, c.Now())
	})
}

// volumeBackups returns the claims of a VM that can be snapshotted: they are bound, and their driver has a VolumeSnapshotClass.
func (c createContent) volumeBackups(ctx context.Context, s *state) (backups []api.VolumeBackup, err error) {
	if s.vm.Spec.Template == nil {
		return nil, nil
	}
	classes, err := volumesnapshot.ListClasses(ctx, c.Live)
	if err != nil || classes == nil {
		return nil, err
	}
	volumes, _ := snapshot.Volumes(s.vm)
	for _, volume := range volumes {
		key := types.NamespacedName{Namespace: s.vm.Namespace, Name: volume.Claim}
		claim, err := objects.GetOrNil(ctx, c.Live, key, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim == nil || claim.Status.Phase != corev1.ClaimBound || claim.Spec.StorageClassName == nil {
			continue
		}
		class, err := classes.NameFor(ctx, c.Live, *claim.Spec.StorageClassName)
		if err != nil {
			return nil, err
		}
		if class != "" {
			backups = append(backups, snapshot.Backup(s.snapshot.UID, volume, claim))
		}
	}
	return backups, nil
}
