package snapshots

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/snapshots/operation"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// VolumeSnapshots are read and written untyped: few fields are needed, and the types of their group would be a module of its own. A cluster need not serve
// them.
var volumeSnapshots = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}

// defaultClass is the annotation of the class that counts where a driver has several.
const defaultClass = "snapshot.storage.kubernetes.io/is-default-class"

func untyped(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(volumeSnapshots.WithKind(kind))
	return object
}

// classes returns the VolumeSnapshotClasses of the cluster by driver; nil where it does not serve the kind.
func (c *Controller) classes(ctx context.Context) (map[string][]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(volumeSnapshots.WithKind("VolumeSnapshotClassList"))
	if err := c.Live.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing VolumeSnapshotClasses: %w", err)
	}
	byDriver := map[string][]unstructured.Unstructured{}
	for _, class := range list.Items {
		driver, _, _ := unstructured.NestedString(class.Object, "driver")
		byDriver[driver] = append(byDriver[driver], class)
	}
	return byDriver, nil
}

// classOf returns the VolumeSnapshotClass for claims of a StorageClass: the only one of its driver, or the default one. Empty if there is none.
func (c *Controller) classOf(ctx context.Context, byDriver map[string][]unstructured.Unstructured, storageClass string) (string, error) {
	found, err := objects.GetOrNil(ctx, c.Live, types.NamespacedName{Name: storageClass}, &storagev1.StorageClass{})
	if err != nil || found == nil {
		return "", err
	}
	classes := byDriver[found.Provisioner]
	if len(classes) == 1 {
		return classes[0].GetName(), nil
	}
	for _, class := range classes {
		if class.GetAnnotations()[defaultClass] == "true" {
			return class.GetName(), nil
		}
	}
	return "", nil
}

// fillContent makes the VolumeSnapshots of a content, and writes its status.
func (c *Controller) fillContent(ctx context.Context, content *api.VirtualMachineSnapshotContent) error {
	was := content.Status
	if content.Spec.Source.VirtualMachine == nil {
		return c.withoutVM(ctx, content)
	}
	taken := was != nil && was.CreationTime != nil
	status := api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(true)}
	if taken {
		status.CreationTime = was.CreationTime
	}
	created, missing := true, []string{}
	for i := range content.Spec.VolumeBackups {
		backup := &content.Spec.VolumeBackups[i]
		if backup.VolumeSnapshotName == nil {
			continue
		}
		found, err := c.volumeSnapshot(ctx, content, backup, taken)
		if err != nil {
			return err
		}
		if found == nil {
			missing = append(missing, *backup.VolumeSnapshotName)
			continue
		}
		one := statusOf(found)
		created = created && one.CreationTime != nil
		if one.ReadyToUse == nil || !*one.ReadyToUse {
			status.ReadyToUse = ptr.To(false)
		}
		status.Error = worse(status.Error, one)
		status.VolumeSnapshotStatus = append(status.VolumeSnapshotStatus, one)
	}
	if len(missing) > 0 {
		status.ReadyToUse = ptr.To(false)
		status.Error = operation.NewError(fmt.Sprintf("VolumeSnapshots '%s' no longer exist", strings.Join(missing, "', '")), c.Now())
	}
	if created && !taken {
		at := metav1.NewTime(c.Now().Truncate(time.Second))
		status.CreationTime = &at
	}
	if was != nil && was.Error != nil && status.Error != nil && operation.ErrorMessage(was.Error, "") == operation.ErrorMessage(status.Error, "") {
		status.Error = was.Error // since then
	}
	return c.PatchStatus(ctx, content, func() { content.Status = &status })
}

// withoutVM says that a content cannot be used: an administrator has written it.
func (c *Controller) withoutVM(ctx context.Context, content *api.VirtualMachineSnapshotContent) error {
	const text = "spec.source.virtualMachine is no VM"
	if content.Status != nil && content.Status.Error != nil && operation.ErrorMessage(content.Status.Error, "") == text {
		return nil
	}
	return c.PatchStatus(ctx, content, func() {
		content.Status = &api.VirtualMachineSnapshotContentStatus{ReadyToUse: ptr.To(false), Error: operation.NewError(text, c.Now())}
	})
}

// volumeSnapshot returns the VolumeSnapshot of a backup. It makes it, unless the content was complete before: then it is gone, and nil.
func (c *Controller) volumeSnapshot(
	ctx context.Context, content *api.VirtualMachineSnapshotContent, backup *api.VolumeBackup, taken bool,
) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: content.Namespace, Name: *backup.VolumeSnapshotName}
	found, err := objects.GetOrNil(ctx, c.Live, key, untyped("VolumeSnapshot"))
	if meta.IsNoMatchError(err) { // the cluster serves the kind no more
		err = nil
	}
	if err == nil && found != nil && !taken && !metav1.IsControlledBy(found, content) { // somebody has cut it at another time, or of another claim
		return nil, apierrors.NewForbidden(volumeSnapshots.WithResource("volumesnapshots").GroupResource(), key.Name,
			fmt.Errorf("it exists, and is not of VirtualMachineSnapshotContent '%s': delete it", content.Name))
	}
	if err != nil || found != nil || taken {
		return found, err
	}
	classes, err := c.classes(ctx)
	if err != nil {
		return nil, err
	}
	class, err := c.classOf(ctx, classes, ptr.Deref(backup.PersistentVolumeClaim.Spec.StorageClassName, ""))
	if err != nil {
		return nil, err
	}
	if class == "" {
		return nil, fmt.Errorf("volume '%s' of VirtualMachineSnapshotContent '%s' has no VolumeSnapshotClass any more", backup.VolumeName, content.Name)
	}
	made := untyped("VolumeSnapshot")
	made.SetNamespace(key.Namespace)
	made.SetName(key.Name)
	made.SetLabels(map[string]string{"snapshot.kubevirt.io/source-vm-name": labelled(content.Spec.Source.VirtualMachine.Name),
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

// labelled cuts a name to what the value of a label may have.
func labelled(name string) string {
	const most = 63
	return strings.TrimRight(name[:min(len(name), most)], "-.")
}

// statusOf reads the status of a VolumeSnapshot.
func statusOf(found *unstructured.Unstructured) api.VolumeSnapshotStatus {
	status := api.VolumeSnapshotStatus{VolumeSnapshotName: found.GetName()}
	if ready, has, _ := unstructured.NestedBool(found.Object, "status", "readyToUse"); has {
		status.ReadyToUse = &ready
	}
	text, _, _ := unstructured.NestedString(found.Object, "status", "creationTime")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		status.CreationTime = &metav1.Time{Time: at}
	}
	if text, has, _ := unstructured.NestedString(found.Object, "status", "error", "message"); has {
		status.Error = &api.Error{Message: &text}
	}
	return status
}

// worse returns the first error.
func worse(first *api.Error, of api.VolumeSnapshotStatus) *api.Error {
	if first != nil || of.Error == nil {
		return first
	}
	text := fmt.Sprintf("VolumeSnapshot '%s': %s", of.VolumeSnapshotName, *of.Error.Message)
	return &api.Error{Message: &text, Time: of.Error.Time}
}

// restoreSize returns how large a claim from a VolumeSnapshot must be; nil if that is not known, and an error if there is no such VolumeSnapshot.
func (c *Controller) restoreSize(ctx context.Context, key types.NamespacedName) (*resource.Quantity, error) {
	found, err := objects.GetOrNil(ctx, c.Live, key, untyped("VolumeSnapshot"))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, apierrors.NewNotFound(volumeSnapshots.WithResource("volumesnapshots").GroupResource(), key.Name)
	}
	text, has, _ := unstructured.NestedString(found.Object, "status", "restoreSize")
	size, err := resource.ParseQuantity(text)
	if !has || err != nil {
		return nil, nil
	}
	return &size, nil
}
