package config

import (
	"cmp"

	v1 "kubevirt.io/api/core/v1"
)

// frontendVersion must change when any value below changes: a record has the version with which its guest was first started.
const frontendVersion = "3"

// freePorts is eight: eight devices can be plugged in, whatever devices the guest has at its start, and the ports are the functions of one slot of the root
// complex. KubeVirt keeps at least three ports empty, and usually fills up to eight ports in all.
const freePorts = 8

// frontendDefaults uses KubeVirt's DMI strings and video models, so that a VM that moves from KubeVirt keeps its hardware.
func frontendDefaults(cfg v1.KubeVirtConfiguration, on Gates) FrontendDefaults {
	strings := SMBIOS{Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"}
	if s := cfg.SMBIOSConfig; s != nil { // each string has its own default, as in KubeVirt
		strings = SMBIOS{
			Manufacturer: cmp.Or(s.Manufacturer, strings.Manufacturer), Product: cmp.Or(s.Product, strings.Product),
			Family: cmp.Or(s.Family, strings.Family), Version: s.Version, SKU: s.Sku,
		}
	}
	return FrontendDefaults{
		Version: frontendVersion,
		SMBIOS:  strings,
		// SeaBIOS writes this vendor and date, and the version of its package, which an upgrade of the host changes.
		BIOS:      BIOS{Vendor: "SeaBIOS", Version: "kiln-1", Date: "04/01/2014"},
		FreePorts: freePorts,
		EFIVideo:  "bochs",
		// KubeVirt does not render this device. Windows and its directory service need it to detect a restore.
		GenerationID:          true,
		Video:                 map[string]string{"amd64": "vga", "arm64": "virtio", "s390x": "virtio"},
		HostDevicesByNUMANode: on.Enabled("PCINUMAAwareTopology"),
	}
}
