package volumesnapshot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// Contents creates the VolumeSnapshots of contents, and follows them.
type Contents struct{ *operation.Cluster }

// UpdateContent creates the missing VolumeSnapshots of a content, and writes its status. Once all VolumeSnapshots were taken, a missing one is an error of the
// status, because it would contain another moment.
func (c Contents) UpdateContent(ctx context.Context, content *api.VirtualMachineSnapshotContent) error {
	before := content.Status
	if content.Spec.Source.VirtualMachine == nil {
		return c.reportMissingVM(ctx, content)
	}
	taken := before != nil && before.CreationTime != nil
	status := api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(true)}
	if taken {
		status.CreationTime = before.CreationTime
	}
	allTaken, missing := true, []string{}
	for i := range content.Spec.VolumeBackups {
		backup := &content.Spec.VolumeBackups[i]
		if backup.VolumeSnapshotName == nil {
			continue
		}
		found, err := c.getOrCreate(ctx, content, backup, taken)
		if err != nil {
			return err
		}
		if found == nil {
			missing = append(missing, *backup.VolumeSnapshotName)
			continue
		}
		one := statusOf(found)
		allTaken = allTaken && one.CreationTime != nil
		if one.ReadyToUse == nil || !*one.ReadyToUse {
			status.ReadyToUse = ptr.To(false)
		}
		status.Error = firstError(status.Error, one)
		status.VolumeSnapshotStatus = append(status.VolumeSnapshotStatus, one)
	}
	if len(missing) > 0 {
		status.ReadyToUse = ptr.To(false)
		status.Error = operation.NewError(fmt.Sprintf("VolumeSnapshots '%s' no longer exist", strings.Join(missing, "', '")), c.Now())
	}
	if allTaken && !taken {
		at := metav1.NewTime(c.Now().Truncate(time.Second))
		status.CreationTime = &at
	}
	if before != nil && before.Error != nil && status.Error != nil && operation.ErrorMessage(before.Error, "") == operation.ErrorMessage(status.Error, "") {
		status.Error = before.Error // its time is when the error occurred first
	}
	return c.PatchStatus(ctx, content, func() { content.Status = &status })
}

// reportMissingVM writes that a content without a VM cannot be used. Only an administrator can have written such a content.
func (c Contents) reportMissingVM(ctx context.Context, content *api.VirtualMachineSnapshotContent) error {
	const text = "spec.source.virtualMachine is not a VM"
	if content.Status != nil && content.Status.Error != nil && operation.ErrorMessage(content.Status.Error, "") == text {
		return nil
	}
	return c.PatchStatus(ctx, content, func() {
		content.Status = &api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(false), Error: operation.NewError(text, c.Now())}
	})
}

// getOrCreate returns the VolumeSnapshot of a backup. If it does not exist, it is created, or nil if all VolumeSnapshots of the content were taken before.
func (c Contents) getOrCreate(
	ctx context.Context, content *api.VirtualMachineSnapshotContent, backup *api.VolumeBackup, taken bool,
) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: content.Namespace, Name: *backup.VolumeSnapshotName}
	found, err := objects.GetOrNil(ctx, c.Live, key, NewObject(Kind))
	if meta.IsNoMatchError(err) { // the cluster no longer serves the kind
		err = nil
	}
	if err == nil && found != nil && !taken && !metav1.IsControlledBy(found, content) { // it may contain another moment, or another claim
		return nil, apierrors.NewForbidden(resources, key.Name,
			fmt.Errorf("it exists, and does not belong to VirtualMachineSnapshotContent '%s': delete it", content.Name))
	}
	if err != nil || found != nil || taken {
		return found, err
	}
	classes, err := ListClasses(ctx, c.Live)
	if err != nil {
		return nil, err
	}
	class, err := classes.NameFor(ctx, c.Live, ptr.Deref(backup.PersistentVolumeClaim.Spec.StorageClassName, ""))
	if err != nil {
		return nil, err
	}
	if class == "" {
		return nil, fmt.Errorf("volume '%s' of VirtualMachineSnapshotContent '%s' no longer has a VolumeSnapshotClass", backup.VolumeName, content.Name)
	}
	made := NewObject(Kind)
	made.SetNamespace(key.Namespace)
	made.SetName(key.Name)
	made.SetLabels(map[string]string{"snapshot.kubevirt.io/source-vm-name": labelValue(content.Spec.Source.VirtualMachine.Name),
		"snapshot.kubevirt.io/source-vm-namespace": content.Namespace})
	made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: api.SchemeGroupVersion.String(), Kind: "VirtualMachineSnapshotContent",
		Name: content.Name, UID: content.UID, Controller: ptr.To(true)}})
	made.Object["spec"] = map[string]any{"volumeSnapshotClassName": class,
		"source": map[string]any{"persistentVolumeClaimName": backup.PersistentVolumeClaim.Name}}
	if err := c.Live.Create(ctx, made); err != nil {
		return nil, fmt.Errorf("creating VolumeSnapshot '%s': %w", key.Name, err)
	}
	return made, nil
}

// labelValue cuts a name to the maximum length of the value of a label.
func labelValue(name string) string {
	const longest = 63
	return strings.TrimRight(name[:min(len(name), longest)], "-.")
}

// firstError returns the first error, or the error of a VolumeSnapshot if there is no other.
func firstError(first *api.Error, status api.VolumeSnapshotStatus) *api.Error {
	if first != nil || status.Error == nil {
		return first
	}
	text := fmt.Sprintf("VolumeSnapshot '%s': %s", status.VolumeSnapshotName, *status.Error.Message)
	return &api.Error{Message: &text, Time: status.Error.Time}
}
