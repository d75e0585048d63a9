// Package libvirt stands in for libvirt.org/go/libvirt, which needs libvirt's headers. The code that makes the devices of a domain shares a package with
// the code that plugs devices into running guests; the latter alone calls libvirt, and answers does not call it.
package libvirt

// DomainDeviceModifyFlags say what a change of a device affects.
type DomainDeviceModifyFlags uint

// Flags that KubeVirt names.
const (
	DOMAIN_DEVICE_MODIFY_LIVE   DomainDeviceModifyFlags = 1 << 0
	DOMAIN_DEVICE_MODIFY_CONFIG DomainDeviceModifyFlags = 1 << 1
)
