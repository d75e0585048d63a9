package pod

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes of type persistentVolumeClaim, dataVolume and ephemeral.
// The volumeMode of the claim decides: a block device appears in the container, a file system is mounted.

// claimed is the claim of a volume.
type claimed struct {
	name     string
	readOnly bool
	at       *field.Path
}

// claimOf returns the claim of a volume; nil for another type. The claim of a DataVolume has its name. An ephemeral volume is only read: what the guest
// writes goes to an overlay.
func claimOf(v *v1.Volume, at *field.Path) *claimed {
	name, readOnly, field := claimNameOf(v)
	if field == "" {
		return nil
	}
	return &claimed{name, readOnly, childNamed(at, field)}
}

// claimNameOf returns the claim of a volume, whether the pod may only read it, and the field of the volume that names it; nothing for a volume without a claim.
func claimNameOf(v *v1.Volume) (name string, readOnly bool, field string) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ReadOnly, "persistentVolumeClaim.claimName"
	case v.DataVolume != nil:
		return v.DataVolume.Name, false, "dataVolume.name"
	case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
		return v.Ephemeral.PersistentVolumeClaim.ClaimName, true, "ephemeral.persistentVolumeClaim.claimName"
	}
	return "", false, ""
}

// writesReadOnlyClaim reports whether the guest has a writable disk on a claim that the pod may only read: QEMU would not start.
func (g guest) writesReadOnlyClaim(v *v1.Volume) bool {
	name, readOnly, at := claimNameOf(v)
	if at == "" || !readOnly && !g.Claims[name].ReadOnly {
		return false
	}
	return slices.ContainsFunc(g.spec.Domain.Devices.Disks, func(d v1.Disk) bool {
		return d.Name == v.Name && (d.Disk != nil && !d.Disk.ReadOnly || d.LUN != nil && !d.LUN.ReadOnly)
	})
}

// mountClaim adds the volume of a claim.
func (g guest) mountClaim(m *mounted, v *v1.Volume, c *claimed) *field.Error {
	claim, exists := g.Claims[c.name]
	if !exists || claim.Filling != "" {
		return notReadyError(c.at, c.name, claim)
	}
	readOnly := c.readOnly || claim.ReadOnly
	volume := corev1.Volume{Name: volumeName("volume", v.Name), VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.name, ReadOnly: readOnly}}}
	if claim.Block {
		m.volumes = append(m.volumes, volume)
		m.devices = append(m.devices, corev1.VolumeDevice{Name: volume.Name, DevicePath: DevicePath(v.Name)})
		return nil
	}
	m.addVolume(volume, corev1.VolumeMount{MountPath: VolumePath(v.Name), ReadOnly: readOnly})
	return nil
}

// Origins of errors about claims.
const (
	// RuleClaimMissing is the origin if the claim does not exist.
	RuleClaimMissing = "pod/claim-missing"
	// RuleClaimFailed is the origin if the DataVolume of the claim has failed to fill it.
	RuleClaimFailed = "pod/claim-failed"
	// RuleClaimUnfilled is the origin if the claim does not have its content yet.
	RuleClaimUnfilled = "pod/claim-unfilled"
	// RuleClaimUnbound is the origin if the DataVolume of the claim waits for a first consumer.
	RuleClaimUnbound = "pod/claim-unbound"
)

// notReadyError returns the error of a claim that does not exist, or does not have its content. Its origin says which.
func notReadyError(at *field.Path, name string, claim Claim) *field.Error {
	err := field.NotFound(at, name)
	err.Detail = cmp.Or(claim.Filling,
		fmt.Sprintf("no PersistentVolumeClaim '%.253s' in this namespace: create it, or wait until its DataVolume has", name))
	switch claim.Unready {
	case RuleClaimFailed:
		return err.WithOrigin(RuleClaimFailed)
	case RuleClaimUnbound:
		return err.WithOrigin(RuleClaimUnbound)
	case RuleClaimUnfilled:
		return err.WithOrigin(RuleClaimUnfilled)
	}
	return err.WithOrigin(RuleClaimMissing)
}
