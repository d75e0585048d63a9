// Package frontend renders all that a guest sees, as a partial libvirt domain with every address assigned: stage 2.
//
// The spec must be explicit: a missing field is an error. What no field of the API governs comes from FrontendDefaults.
// Some absent fields have a meaning that admission does not write into the spec: autoattachGraphicsDevice, autoattachSerialConsole and
// autoattachMemBalloon mean true, an interface without a model is a virtio one. Each is named where it is read. The backend adds the
// sources of devices, which it finds by their aliases.
//
// Each file names the part of KubeVirt that it reproduces, by its path below pkg/virt-launcher/virtwrap, and the section of libvirt's page
// "Domain XML format" (formatdomain) that defines its elements. Unlike KubeVirt, nothing here reads a host: libvirt's allocator of
// addresses, the environment and sysfs have no part in what a guest sees.
package frontend

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Input is everything that the frontend document depends on.
type Input struct {
	// VMI is explicit and has its identity (firmware UUID, serial, MACs). It is not modified.
	VMI *v1.VirtualMachineInstance
	// Defaults count at the first boot only: the record keeps what became of them.
	Defaults config.FrontendDefaults
	// Frozen is the record of an earlier boot, nil at the first boot. What it holds comes before Defaults and Facts.
	Frozen *record.Record
	Facts  Facts
	// Generation is the VM generation ID, a GUID that changes when the disks are restored or cloned.
	Generation string
}

// Facts are what the guest sees of the host of its first boot. They are read there once, and recorded.
type Facts struct {
	// Machines resolves machine type aliases of the VMI's architecture: q35 -> pc-q35-7.2. libvirt resolves an alias that is missing here
	// at the start.
	Machines map[string]string
	// CPU is the CPU that host-model means on the host for the VMI's architecture; nil if libvirt reports none.
	CPU *v1alpha1.ReportedCPU
	// Firmware are the builds of EFI firmware with which the host can start the VMI, the preferred one first; empty if they are not known.
	Firmware []string
	// HostDevices is the kind of each host device and GPU by name: pci, mdev or usb, and on s390x ap or ccw, which are mediated
	// too. A name that is missing has kind pci.
	HostDevices map[string]string
	// USBDevices is the number of USB devices of a host device by name, if it is more than one.
	USBDevices map[string]int
	// BlockSizes are the block sizes of volumes in bytes, by the volumes' names, for disks with blockSize.matchVolume.
	BlockSizes map[string]v1.CustomBlockSize
	// NUMA are the NUMA nodes of the host that have CPUs for this VMI, in the host's order.
	NUMA []NUMANode
	// HostDeviceNUMANodes is the ID of the host's NUMA node of each host device, by the device's name. It lacks devices whose NUMA node the host does not report.
	HostDeviceNUMANodes map[string]int
}

// NUMANode is a NUMA node of a host.
type NUMANode struct {
	ID int
	// CPUs is the number of its logical CPUs that this VMI may have.
	CPUs uint
	// Distances to other NUMA nodes by their ID, in the units of ACPI's SLIT: 10 is the NUMA node itself. Empty if the host reports none.
	Distances map[int]uint
}

// Render returns the frontend: a partial domain without sources, paths and tuning. The errors name every field that is not explicit
// (Required) or cannot be rendered (NotSupported, Invalid, Forbidden), by paths that start at spec. It is a pure function: equal input gives
// equal bytes.
func Render(in Input) (*libvirtxml.Domain, field.ErrorList) {
	g, err := newGuest(in)
	if err != nil {
		return nil, field.ErrorList{err}
	}
	dom := &libvirtxml.Domain{
		Name:           g.domainName(),
		UUID:           g.systemUUID(),
		GenID:          g.renderGenID(),
		MaximumMemory:  g.renderMaxMemory(),
		Memory:         g.renderMemory(),
		VCPU:           g.renderVCPU(),
		VCPUs:          g.renderVCPUs(),
		SysInfo:        g.renderSysInfo(),
		OS:             g.renderOS(),
		Features:       g.renderFeatures(),
		CPU:            g.renderCPU(),
		Clock:          g.renderClock(),
		PM:             g.renderSleepStates(),
		OnPoweroff:     "destroy",
		OnReboot:       g.onReboot(),
		OnCrash:        "destroy",
		LaunchSecurity: g.renderLaunchSecurity(),
		Devices: &libvirtxml.DomainDeviceList{
			Disks:       g.renderDisks(),
			Filesystems: g.renderFilesystems(),
			Interfaces:  g.renderInterfaces(),
			Serials:     g.renderSerials(),
			Consoles:    g.renderConsoles(),
			Channels:    g.renderChannels(),
			Inputs:      g.renderInputs(),
			TPMs:        g.renderTPMs(),
			Graphics:    g.renderGraphics(),
			Sounds:      g.renderSounds(),
			Videos:      g.renderVideos(),
			Hostdevs:    g.renderHostdevs(),
			RedirDevs:   g.renderRedirDevs(),
			Watchdogs:   g.renderWatchdogs(),
			MemBalloon:  g.renderBalloon(),
			RNGs:        g.renderRNGs(),
			Panics:      g.renderPanics(),
			IOMMUs:      g.renderIOMMUs(),
			VSock:       g.renderVsock(),
		},
	}
	g.assignAddresses(dom)
	g.bootRecordedDisk(dom)
	if len(g.errs) > 0 {
		return nil, g.errs
	}
	return dom, nil
}

// guest is the VMI that is rendered, and the input of the value functions. They write to it through fail and pin only.
type guest struct {
	Input
	spec    *v1.VirtualMachineInstanceSpec
	dev     *v1.Devices
	arch    *boardProfile
	path    *field.Path // spec.domain
	devPath *field.Path // spec.domain.devices
	errs    field.ErrorList
	pins    map[deviceName]pin
	volumes map[string]*v1.Volume
}

// Paths are immutable: each rendering would make these again.
var (
	architecturePath = field.NewPath("spec", "architecture")
	domainPath       = field.NewPath("spec", "domain")
	devicesPath      = domainPath.Child("devices")
	disksPath        = devicesPath.Child("disks")
	interfacesPath   = devicesPath.Child("interfaces")
	featuresPath     = domainPath.Child("features")
	timerPath        = domainPath.Child("clock", "timer")
)

// deviceName is kind and name of a device as in abi.Device, and in the key of records. A joined key would be made for each device that is looked up.
type deviceName struct{ kind, name string }

// pin is what the spec has about a device: its field, and pciAddress if it is set.
type pin struct {
	path    *field.Path
	address string
}

func newGuest(in Input) (*guest, *field.Error) {
	spec := &in.VMI.Spec
	if spec.Architecture == "" {
		return nil, field.Required(architecturePath, "")
	}
	arch, ok := profiles[spec.Architecture]
	if !ok {
		return nil, field.NotSupported(architecturePath, spec.Architecture, hardware.Architectures)
	}
	g := &guest{
		Input: in, spec: spec, dev: &spec.Domain.Devices, arch: arch,
		path: domainPath, devPath: devicesPath, volumes: make(map[string]*v1.Volume, len(spec.Volumes)),
		pins: make(map[deviceName]pin, len(spec.Domain.Devices.Disks)+len(spec.Domain.Devices.Interfaces)),
	}
	for i := range spec.Volumes {
		g.volumes[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	return g, nil
}

func (g *guest) addError(err *field.Error) { g.errs = append(g.errs, err) }

func (g *guest) addPin(kind, name string, pin pin) { g.pins[deviceName{kind, name}] = pin }
