package create

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
)

// This file sets spec.template.spec.volumes, and a disk for each volume with a bootorder.
// A VM without such disks boots from its first volume, because admission adds the disks in the order of the volumes.

// Names of the volumes of which a VM has at most one. They are virtctl's names.
const (
	sysprepVolume   = "sysprepdisk"
	cloudInitVolume = "cloudinitdisk"
)

// addVolume adds a volume. It adds a disk only for a bootorder, because admission adds the missing disks.
// It fails if the name is not a DNS label (RFC 1123), or if another volume has the same name or the same bootorder.
func (b *vmBuilder) addVolume(p parameters, volume v1.Volume) error {
	if errs := validation.IsDNS1123Label(volume.Name); len(errs) > 0 {
		return flagError(p.flag, "name '%s': %s", volume.Name, strings.Join(errs, ", "))
	}
	if slices.ContainsFunc(b.vmiSpec().Volumes, func(v v1.Volume) bool { return v.Name == volume.Name }) {
		return flagError(p.flag, "there is a volume '%s' already: give this one another name", volume.Name)
	}
	b.vmiSpec().Volumes = append(b.vmiSpec().Volumes, volume)
	order, err := p.bootOrder()
	if err != nil || order == nil {
		return err
	}
	if first := b.order[*order]; first != "" {
		return flagError(p.flag, "bootorder %d already belongs to volume '%s'", *order, first)
	}
	b.order[*order] = volume.Name
	b.vmiSpec().Domain.Devices.Disks = append(b.vmiSpec().Domain.Devices.Disks, v1.Disk{Name: volume.Name, BootOrder: order})
	return nil
}

// addContainerdisks is virtctl's withContainerdiskVolume.
func (b *vmBuilder) addContainerdisks() error {
	for i, text := range b.VolumeContainerdisk {
		p, err := parseParameters("volume-containerdisk", text, "src", "name", "bootorder")
		if err != nil {
			return err
		}
		image, err := p.requiredValue("src")
		if err != nil {
			return err
		}
		volume := v1.Volume{Name: p.values["name"], VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: image}}}
		if volume.Name == "" {
			// virtctl's name. i counts the flags from 0.
			volume.Name = fmt.Sprintf("%s-containerdisk-%d", b.Name, i)
		}
		if err := b.addVolume(p, volume); err != nil {
			return err
		}
	}
	return nil
}

// addClaims is virtctl's withPvcVolume. The VM uses the claim itself, not a copy.
func (b *vmBuilder) addClaims() error {
	for _, text := range b.VolumePVC {
		p, err := parseParameters("volume-pvc", text, "src", "name", "bootorder")
		if err != nil {
			return err
		}
		claim, err := p.localName("src")
		if err != nil {
			return err
		}
		volume := v1.Volume{Name: p.values["name"]}
		if volume.Name == "" {
			// Trap: the name of a claim may contain dots, and the name of a volume must not. addVolume refuses such a claim until the flag has a name.
			volume.Name = claim
		}
		volume.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}
		if err := b.addVolume(p, volume); err != nil {
			return err
		}
	}
	return nil
}

// addSysprep is virtctl's withSysprepVolume. The disk is an answer file for the setup of Windows.
func (b *vmBuilder) addSysprep() error {
	if b.VolumeSysprep == "" {
		return nil
	}
	p, err := parseParameters("volume-sysprep", b.VolumeSysprep, "src", "type")
	if err != nil {
		return err
	}
	name, err := p.localName("src")
	if err != nil {
		return err
	}
	source := &v1.SysprepSource{}
	switch kind := strings.ToLower(p.values["type"]); kind {
	// As in virtctl, a ConfigMap is the default.
	case "", "configmap":
		source.ConfigMap = &corev1.LocalObjectReference{Name: name}
	case "secret":
		source.Secret = &corev1.LocalObjectReference{Name: name}
	default:
		return flagError(p.flag, "type '%s' must be 'configmap' or 'secret'", kind)
	}
	return b.addVolume(p, v1.Volume{Name: sysprepVolume, VolumeSource: v1.VolumeSource{Sysprep: source}})
}
