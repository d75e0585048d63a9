// Package frontend renders all that a guest sees, as a partial libvirt domain with every address assigned: stage 2.
//
// The spec must be explicit: a missing field is an error. What no field of the API governs comes from FrontendDefaults.
// A few fields of the API mean something when absent which admission does not write
// into the spec (graphics, serial console and balloon are attached, an interface is a virtio one, ...): each is named where
// it is read. Sources are left to the backend, which finds devices by their aliases.
package frontend

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Input is everything that stage 2 depends on.
type Input struct {
	// VMI is explicit and has its identity (firmware UUID, serial, MACs). It is not modified.
	VMI      *v1.VirtualMachineInstance
	Defaults config.FrontendDefaults
	// Frozen is the record of an earlier boot, nil at the first.
	Frozen *record.Record
	Facts  Facts
	// Generation is the GUID of this life of the guest's disks: another one after they were restored or cloned.
	Generation string
}

// Facts are what the guest sees of the host of its first boot. They are resolved there, and frozen.
type Facts struct {
	// Machines resolves machine type aliases of the guest's architecture: q35 -> pc-q35-7.2. An alias that is not here is
	// left for the host of the start to resolve.
	Machines map[string]string
	// HostDevices is the kind of each host device and GPU by name: pci, mdev or usb, and for s390x ap or ccw, which are mediated
	// too. Those not here are taken for pci.
	HostDevices map[string]string
	// BlockSizes are those of volumes, by name, for disks that match their volume.
	BlockSizes map[string]v1.CustomBlockSize
	// NUMA are the NUMA nodes of the host with CPUs for this guest, in the host's order.
	NUMA []NUMANode
	// HostDeviceNUMANodes are the NUMA nodes of the host, by their ID, that host devices are next to, by the devices' names; those of which it
	// is not known are not here.
	HostDeviceNUMANodes map[string]int
}

// NUMANode is a NUMA node of a host.
type NUMANode struct {
	ID int
	// CPUs is how many this guest may have there.
	CPUs uint
	// Distances to other NUMA nodes by their ID, as ACPI counts them (10 is the NUMA node itself); may be unknown.
	Distances map[int]uint
}

// Render returns the frontend, or every field that is not explicit (Required) or cannot be rendered (NotSupported,
// Invalid, Forbidden). Paths start at spec.
func Render(in Input) (*libvirtxml.Domain, field.ErrorList) {
	g, err := newGuest(in)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	dom := &libvirtxml.Domain{
		Name:           g.name(),
		UUID:           g.uuid(),
		GenID:          g.genID(),
		MaximumMemory:  g.maxMemory(),
		Memory:         g.memory(),
		VCPU:           g.vcpu(),
		VCPUs:          g.vcpus(),
		SysInfo:        g.sysinfo(),
		OS:             g.os(),
		Features:       g.features(),
		CPU:            g.cpu(),
		Clock:          g.clock(),
		OnPoweroff:     "destroy",
		OnReboot:       g.onReboot(),
		OnCrash:        "destroy",
		LaunchSecurity: g.launchSecurity(),
		Devices: &libvirtxml.DomainDeviceList{
			Disks:       g.disks(),
			Filesystems: g.filesystems(),
			Interfaces:  g.interfaces(),
			Serials:     g.serials(),
			Consoles:    g.consoles(),
			Channels:    g.channels(),
			Inputs:      g.inputs(),
			TPMs:        g.tpms(),
			Graphics:    g.graphics(),
			Sounds:      g.sounds(),
			Videos:      g.videos(),
			Hostdevs:    g.hostdevs(),
			RedirDevs:   g.redirdevs(),
			Watchdogs:   g.watchdogs(),
			MemBalloon:  g.balloon(),
			RNGs:        g.rngs(),
			Panics:      g.panics(),
			IOMMUs:      g.iommus(),
			VSock:       g.vsock(),
		},
	}
	g.place(dom)
	if len(g.errs) > 0 {
		return nil, g.errs
	}
	return dom, nil
}

// guest is the input of the value functions. They write to it through fail and pin only.
type guest struct {
	Input
	spec    *v1.VirtualMachineInstanceSpec
	dev     *v1.Devices
	arch    profile
	path    *field.Path // spec.domain
	devPath *field.Path // spec.domain.devices
	errs    field.ErrorList
	pins    map[string]pin // by record key
	volumes map[string]*v1.Volume
}

// pin is what the user wrote of a device: where, and perhaps its PCI address.
type pin struct {
	path    *field.Path
	address string
}

func newGuest(in Input) (*guest, *field.Error) {
	spec := &in.VMI.Spec
	path := field.NewPath("spec", "architecture")
	if spec.Architecture == "" {
		return nil, field.Required(path, "")
	}
	arch, ok := profiles[spec.Architecture]
	if !ok {
		return nil, field.NotSupported(path, spec.Architecture, []string{"amd64", "arm64", "s390x"})
	}
	domain := field.NewPath("spec", "domain")
	g := &guest{
		Input: in, spec: spec, dev: &spec.Domain.Devices, arch: arch,
		path: domain, devPath: domain.Child("devices"), pins: map[string]pin{}, volumes: map[string]*v1.Volume{},
	}
	for i := range spec.Volumes {
		g.volumes[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	return g, nil
}

func (g *guest) fail(err *field.Error) { g.errs = append(g.errs, err) }

func (g *guest) pin(key string, path *field.Path, address string) { g.pins[key] = pin{path, address} }

// attached is the API's rule for autoattach fields: absent means yes.
func attached(flag *bool) bool { return flag == nil || *flag }

func set(flag *bool) bool { return flag != nil && *flag }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
