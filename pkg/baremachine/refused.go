package baremachine

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Reasons for which a launcher on a bare machine refuses a field. Package internal/hostresources has the same words when it binds the field.
const (
	VolumeReason = "this kind of volume is not supported on a bare machine; " +
		"use containerDisk, hostDisk, emptyDisk, cloudInitNoCloud, or a claim that the machine's administrator describes below --claims"
	SecretDataReason = "cloud-init data from a Secret is not supported on a bare machine; use userData and networkData"
	BindingReason    = "this binding is not supported on a bare machine; use masquerade or bridge"
	deviceReason     = "no device of a bare machine is given to guests; let the guest run in a pod"
	virtiofsReason   = "no launcher runs virtiofsd; use a disk"
)

// RefusedFields returns the fields of an explicit VMI because of which no launcher on a bare machine starts the guest. Fields that depend on the launcher's
// flags or on the machine, such as claims, bridges and images, are not among them.
func RefusedFields(vmi *v1.VirtualMachineInstance) (refused field.ErrorList) {
	spec := &vmi.Spec
	for i := range spec.Volumes {
		if reason := volumeReason(&spec.Volumes[i]); reason != "" {
			refused = append(refused, forbiddenField(field.NewPath("spec", "volumes").Index(i), reason))
		}
	}
	devices := &spec.Domain.Devices
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; nic.Masquerade == nil && nic.Bridge == nil {
			refused = append(refused, forbiddenField(devicePath("interfaces", i), BindingReason))
		}
	}
	for i := range devices.Filesystems {
		refused = append(refused, forbiddenField(devicePath("filesystems", i), virtiofsReason))
	}
	for i := range devices.GPUs {
		refused = append(refused, forbiddenField(devicePath("gpus", i), deviceReason))
	}
	for i := range devices.HostDevices {
		refused = append(refused, forbiddenField(devicePath("hostDevices", i), deviceReason))
	}
	return refused
}

func devicePath(list string, i int) *field.Path {
	return field.NewPath("spec", "domain", "devices", list).Index(i)
}

func forbiddenField(at *field.Path, reason string) *field.Error {
	return field.Forbidden(at, reason).WithOrigin("runtime/node")
}

// volumeReason returns why a volume is refused; empty if a launcher may serve it.
func volumeReason(volume *v1.Volume) string {
	switch data := volume.CloudInitNoCloud; {
	case volume.HostDisk != nil, volume.PersistentVolumeClaim != nil, volume.DataVolume != nil, volume.ContainerDisk != nil, volume.EmptyDisk != nil:
		return ""
	case data == nil:
		return VolumeReason
	case data.UserDataSecretRef != nil || data.NetworkDataSecretRef != nil:
		return SecretDataReason
	}
	return ""
}
