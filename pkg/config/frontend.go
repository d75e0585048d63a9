package config

import (
	"cmp"

	v1 "kubevirt.io/api/core/v1"
)

// frontendVersion must change whenever a value below does: a record holds the version that its guest was first started with.
const frontendVersion = "2"

// freePorts is eight, so that eight devices can be plugged in whatever the guest starts with. They are functions of one slot of the root
// complex. KubeVirt keeps at least three empty, and usually tops up to eight ports in all.
const freePorts = 8

// frontendDefaults uses KubeVirt's DMI strings and video models, so that a VM that moves from KubeVirt keeps its hardware.
func frontendDefaults(cfg v1.KubeVirtConfiguration, on Gates) FrontendDefaults {
	strings := SMBIOS{Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"}
	if s := cfg.SMBIOSConfig; s != nil { // as in KubeVirt each string has its own default
		strings = SMBIOS{
			Manufacturer: cmp.Or(s.Manufacturer, strings.Manufacturer), Product: cmp.Or(s.Product, strings.Product),
			Family: cmp.Or(s.Family, strings.Family), Version: s.Version, SKU: s.Sku,
		}
	}
	return FrontendDefaults{
		Version:   frontendVersion,
		SMBIOS:    strings,
		FreePorts: freePorts,
		EFIVideo:  "bochs",
		// KubeVirt renders no such device; Windows and its directory service need it to detect a restore.
		GenerationID:          true,
		Video:                 map[string]string{"amd64": "vga", "arm64": "virtio", "s390x": "virtio"},
		HostDevicesByNUMANode: on.Enabled("PCINUMAAwareTopology"),
	}
}
