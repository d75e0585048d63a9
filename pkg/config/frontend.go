package config

import (
	"cmp"

	v1 "kubevirt.io/api/core/v1"
)

// frontendVersion changes whenever a value below does, for guests keep the set that they were first started with.
const frontendVersion = "2"

// freePorts is the number of empty root ports of a new guest. KubeVirt keeps at least three and usually tops up to
// eight ports; eight empty ones let a guest take as many devices whatever it started with, at the price of eight
// functions on one slot of the root complex.
const freePorts = 8

// frontend gives the same DMI strings and video models as KubeVirt, so that a guest that moves over keeps its hardware.
func frontend(cfg v1.KubeVirtConfiguration, on Gates) FrontendDefaults {
	strings := SMBIOS{Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"}
	if s := cfg.SMBIOSConfig; s != nil { // laid over the defaults string by string, as KubeVirt does
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
		// KubeVirt gives none; Windows and its directory service want one to notice that they were restored.
		GenerationID:          true,
		Video:                 map[string]string{"amd64": "vga", "arm64": "virtio", "s390x": "virtio"},
		HostDevicesByNUMANode: on.Enabled("PCINUMAAwareTopology"),
	}
}
