package main

import (
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
)

// hostContext is what the reference's converter was given of the cluster and the host.
type hostContext struct {
	Arch              string
	BochsForEFIGuests bool
	SMBIOS            *v1.SMBiosConfiguration
	CPUSet            []int
	NUMACells         []struct {
		ID          int
		CPUs        []int
		MemoryBytes uint64
	}
	HostDevices, GPUs, SRIOV []struct{ Alias, PCI, MDev string }
}

// renderMachine returns the same cluster and host for Kiln. It assumes what the context does not contain.
func (c hostContext) renderMachine(vmi *v1.VirtualMachineInstance, defaults config.FrontendDefaults) render.Machine {
	m := render.Machine{VMI: vmi, Defaults: defaults, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(vmi)}
	m.Defaults.HostDevicesByNUMANode = false // the converter asks the host, which the recordings leave out
	m.Defaults.SMBIOS, m.Defaults.BIOS = config.SMBIOS{}, config.BIOS{}
	if s := c.SMBIOS; s != nil {
		m.Defaults.SMBIOS = config.SMBIOS{Manufacturer: s.Manufacturer, Product: s.Product, Family: s.Family, Version: s.Version, SKU: s.Sku}
	}
	if !c.BochsForEFIGuests {
		m.Defaults.EFIVideo = ""
	}
	if len(c.CPUSet) > 0 {
		m.Bindings.CPUs = c.CPUSet
		// Only the recording has NUMA nodes then, because the nodes of the assumed host do not belong to the recorded CPUs.
		m.Host.NUMA = nil
	}
	// The context has no topology of sockets and cores: each CPU counts as a core, and each NUMA node as a socket.
	for _, cell := range c.NUMACells {
		found := backend.NUMANode{ID: cell.ID, MemoryKiB: cell.MemoryBytes / 1024}
		for _, id := range cell.CPUs {
			found.CPUs = append(found.CPUs, backend.CPU{ID: id, Socket: cell.ID, Core: id})
		}
		m.Host.NUMA = append(m.Host.NUMA, found)
	}
	// The reference puts the kind of a device before its alias, and Kiln's bindings are by the name that the user gave.
	for prefix, list := range map[string][]struct{ Alias, PCI, MDev string }{"hostdevice-": c.HostDevices, "gpu-": c.GPUs, "sriov-": c.SRIOV} {
		for _, device := range list {
			bound := backend.HostDev{Type: "pci", Address: device.PCI}
			if device.MDev != "" {
				bound = backend.HostDev{Type: "mdev", Address: device.MDev}
			}
			m.Bindings.HostDevs[strings.TrimPrefix(device.Alias, prefix)] = bound
		}
	}
	return m
}
