package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// Volume is a volume of a VM whose claim can be snapshotted.
type Volume struct{ Name, Claim string }

// Volumes returns the volumes of a VM whose claims a snapshot includes, if the cluster can take snapshots of them, and the names of all other volumes, which no
// snapshot includes: their content comes from elsewhere, or is lost at each start. The state of EFI and TPM is the last claim.
func Volumes(vm *v1.VirtualMachine) (claims []Volume, others []string) {
	for i := range vm.Spec.Template.Spec.Volumes {
		switch of := &vm.Spec.Template.Spec.Volumes[i]; {
		case of.PersistentVolumeClaim != nil:
			claims = append(claims, Volume{of.Name, of.PersistentVolumeClaim.ClaimName})
		case of.DataVolume != nil:
			claims = append(claims, Volume{of.Name, of.DataVolume.Name})
		default:
			others = append(others, of.Name)
		}
	}
	return append(claims, Volume{State, pod.StateName(vm.Name)}), others
}

// VolumeSnapshotName returns the name of the VolumeSnapshot of a volume, in KubeVirt's form.
func VolumeSnapshotName(snapshot types.UID, volume string) string {
	if volume == State {
		return fmt.Sprintf("vmsnapshot-%s-state", snapshot)
	}
	return fmt.Sprintf("vmsnapshot-%s-volume-%s", snapshot, volume)
}

// Backup returns the entry of a claim in the volumeBackups of a content.
func Backup(snapshot types.UID, of Volume, claim *corev1.PersistentVolumeClaim) api.VolumeBackup {
	name := VolumeSnapshotName(snapshot, of.Name)
	meta := *claim.ObjectMeta.DeepCopy()
	meta.ManagedFields = nil
	delete(meta.Annotations, corev1.LastAppliedConfigAnnotation)
	return api.VolumeBackup{VolumeName: of.Name, VolumeSnapshotName: &name,
		PersistentVolumeClaim: api.PersistentVolumeClaim{ObjectMeta: meta, Spec: *claim.Spec.DeepCopy()}}
}

// Restores returns the claims that a restore makes, with KubeVirt's names. The claim with the state of EFI and TPM has the name by which the VM's pod finds it.
func (k Kept) Restores(restore *api.VirtualMachineRestore) (all []api.VolumeRestore) {
	for i := range k.Backups {
		backup := &k.Backups[i]
		// Two VMs may not have the same state of EFI and TPM, even if only a preference has made it persistent.
		if backup.VolumeSnapshotName == nil || backup.VolumeName == State && k.Another(restore) {
			continue
		}
		all = append(all, api.VolumeRestore{VolumeName: backup.VolumeName, VolumeSnapshotName: *backup.VolumeSnapshotName,
			PersistentVolumeClaimName: claimName(restore, backup)})
	}
	return all
}

func claimName(restore *api.VirtualMachineRestore, backup *api.VolumeBackup) string {
	if backup.VolumeName == State {
		return pod.StateName(restore.Spec.Target.Name)
	}
	for _, override := range restore.Spec.VolumeRestoreOverrides {
		if override.VolumeName == backup.VolumeName && override.RestoreName != "" {
			return override.RestoreName
		}
	}
	if policy := restore.Spec.VolumeRestorePolicy; policy != nil {
		switch *policy {
		case api.VolumeRestorePolicyInPlace:
			return backup.PersistentVolumeClaim.Name
		case api.VolumeRestorePolicyPrefixTargetName:
			return prefixedName(restore.Spec.Target.Name, backup.VolumeName)
		}
	}
	return fmt.Sprintf("restore-%s-%s", restore.UID, backup.VolumeName)
}

// prefixedName joins two names by '-'. A name that is too long for a label is cut, and ends with a digest of the whole name.
func prefixedName(target, volume string) string {
	name := target + "-" + volume
	if len(name) <= validation.DNS1035LabelMaxLength {
		return name
	}
	const digits = 8
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:validation.DNS1035LabelMaxLength-digits-1], "-.") + "-" + hex.EncodeToString(sum[:])[:digits]
}

// useVolumes replaces the volumes of a VM by the claims that a restore makes. A DataVolume becomes a PersistentVolumeClaim, and its template is removed: the
// DataVolume that would be made of the template would be another disk, and a VM that has no right to its source would not start.
func useVolumes(vm *v1.VirtualMachine, restore *api.VirtualMachineRestore) {
	if restore.Status == nil {
		return
	}
	claims := map[string]string{}
	for _, of := range restore.Status.Restores {
		claims[of.VolumeName] = of.PersistentVolumeClaimName
	}
	dropped := map[string]bool{}
	for i := range vm.Spec.Template.Spec.Volumes {
		of := &vm.Spec.Template.Spec.Volumes[i]
		name, restored := claims[of.Name]
		switch {
		case !restored:
		case of.PersistentVolumeClaim != nil:
			of.PersistentVolumeClaim.ClaimName = name
		case of.DataVolume != nil:
			dropped[of.DataVolume.Name] = true
			source := corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
			hotpluggable := of.DataVolume.Hotpluggable
			of.VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: source, Hotpluggable: hotpluggable}}
		}
	}
	var kept []v1.DataVolumeTemplateSpec
	for _, template := range vm.Spec.DataVolumeTemplates {
		if !dropped[template.Name] {
			kept = append(kept, template)
		}
	}
	vm.Spec.DataVolumeTemplates = kept
}

// volumeAnnotationPrefixes are the beginnings of annotations of a claim that are about its old volume.
var volumeAnnotationPrefixes = []string{
	"pv.kubernetes.io", "volume.beta.kubernetes.io", "volume.kubernetes.io", "cdi.kubevirt.io", "k8s.io/CloneRequest", "k8s.io/CloneOf",
}

// RestoredClaim returns the claim that is made from a VolumeSnapshot. size is the size of the snapshot, nil if it is not known. owner is nil for a claim
// without an owner.
func RestoredClaim(
	restore *api.VirtualMachineRestore, of api.VolumeRestore, backup *api.VolumeBackup, size *resource.Quantity, owner *metav1.OwnerReference,
) *corev1.PersistentVolumeClaim {
	was := backup.PersistentVolumeClaim.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: of.PersistentVolumeClaimName, Namespace: restore.Namespace, Labels: was.Labels, Annotations: map[string]string{},
	}}
	for key, value := range was.Annotations {
		if !startsWithAny(key, volumeAnnotationPrefixes) {
			claim.Annotations[key] = value
		}
	}
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	for _, override := range restore.Spec.VolumeRestoreOverrides {
		if override.VolumeName == of.VolumeName {
			maps.Copy(claim.Labels, override.Labels)
			maps.Copy(claim.Annotations, override.Annotations)
		}
	}
	claim.Annotations[Mark] = MarkOf(restore)
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	group := "snapshot.storage.k8s.io"
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: was.Spec.AccessModes, StorageClassName: was.Spec.StorageClassName, VolumeMode: was.Spec.VolumeMode, Resources: was.Spec.Resources,
		DataSource: &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: of.VolumeSnapshotName},
	}
	if size != nil && size.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) > 0 {
		requests := claim.Spec.Resources.Requests.DeepCopy()
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		requests[corev1.ResourceStorage] = *size
		claim.Spec.Resources.Requests = requests
	}
	return claim
}

func startsWithAny(text string, beginnings []string) bool {
	for _, beginning := range beginnings {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	return false
}
