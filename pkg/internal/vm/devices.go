package vm

import (
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// IsDeviceName reports whether libvirt accepts 'ua-' and the name as the alias of a device, by which the hardware record finds the device again.
func IsDeviceName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// Hotpluggable reports whether the disk of a volume may be unplugged while the guest runs.
func Hotpluggable(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.Hotpluggable || volume.DataVolume != nil && volume.DataVolume.Hotpluggable
}
