package frontend

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.disks, blockMultiQueue and filesystems. addresses.go assigns target names (vda) and addresses. Volumes, caches, IO modes and
// threads are the backend's. tag is for cloud-init and renders nothing.
// KubeVirt: converter/storage/{disk,virtiofs}.go. libvirt: "Hard drives, floppy disks, CDROMs" and "Filesystems".

// renderDisks keeps the order of the spec. KubeVirt leaves out hot-plugged volumes that are not mounted yet; here every disk of the spec is rendered.
func (g *guest) renderDisks() []libvirtxml.DomainDisk {
	out := make([]libvirtxml.DomainDisk, 0, len(g.dev.Disks))
	for i := range g.dev.Disks {
		out = append(out, g.renderDisk(&g.dev.Disks[i], disksPath.Index(i)))
	}
	return out
}

// unboundVolume stands for the source of every disk until the backend binds the volume. Nothing may write to it.
var unboundVolume = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{}}

func (g *guest) renderDisk(d *v1.Disk, path *field.Path) libvirtxml.DomainDisk {
	out := libvirtxml.DomainDisk{
		Alias:   abi.BoundAlias("disk", d.Name),
		Source:  unboundVolume,
		BlockIO: g.blockSize(d, path),
		Boot:    bootElement(d.BootOrder),
		Target:  &libvirtxml.DomainDiskTarget{},
	}
	g.checkName(d.Name, path)
	g.checkVolume(d, path)
	name, address := g.setTarget(&out, d, path)
	bus := hardware.Bus(name)
	g.addPin("disk", d.Name, pin{path: path})
	if address.Address != "" {
		g.addPin("disk", d.Name, pin{address.Path, address.Address})
		if bus.Address != hardware.OnPCI {
			g.addError(field.Forbidden(address.Path, "only disks on bus 'virtio' are PCI devices"))
		}
	}
	out.Target.Bus = string(name)
	// KubeVirt has no serial for LUNs and CD-ROMs. A LUN passes SCSI commands through, so the guest reads the serial of the device behind it.
	if d.LUN == nil {
		out.Serial = d.Serial
	}
	if ptr.Deref(d.Shareable, false) {
		out.Shareable = &libvirtxml.DomainDiskShareable{}
	}
	if bus.Virtio {
		out.Model = g.virtioModel()
		out.Driver = g.diskDriver(d.Name)
	}
	return out
}

// userAddress is a pciAddress of the spec, and its field.
type userAddress struct {
	Address string
	Path    *field.Path
}

// setTarget sets the kind of drive: disk, lun or cdrom. It returns the bus and the address that the spec asks for.
func (g *guest) setTarget(out *libvirtxml.DomainDisk, d *v1.Disk, path *field.Path) (v1.DiskBus, userAddress) {
	readonly := false
	var bus v1.DiskBus
	var address userAddress
	switch {
	case d.Disk != nil:
		out.Device, bus, readonly = "disk", d.Disk.Bus, d.Disk.ReadOnly
		if d.Disk.PciAddress != "" {
			address = userAddress{d.Disk.PciAddress, path.Child("disk", "pciAddress")}
		}
	case d.LUN != nil:
		out.Device, bus, readonly = "lun", d.LUN.Bus, d.LUN.ReadOnly
	case d.CDRom != nil:
		out.Device, bus = "cdrom", d.CDRom.Bus
		if d.CDRom.ReadOnly == nil {
			g.addError(field.Required(path.Child("cdrom", "readonly"), ""))
		}
		readonly = ptr.Deref(d.CDRom.ReadOnly, false)
		if d.CDRom.Tray == v1.TrayStateOpen { // 'closed' is the default, which libvirt does not store
			out.Target.Tray = string(d.CDRom.Tray)
		}
	default:
		g.addError(field.Required(path.Child("disk"), "one of disk, lun or cdrom must be set"))
		return "", address
	}
	// downwardMetrics: the host writes, the guest reads.
	if v := g.volumes[d.Name]; readonly || v != nil && v.DownwardMetrics != nil {
		out.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}
	g.checkBus(out.Device, bus, path)
	return bus, address
}

// checkBus adds an error if a drive cannot be on the bus.
func (g *guest) checkBus(target string, bus v1.DiskBus, path *field.Path) {
	switch b := hardware.Bus(bus); {
	case bus == "":
		g.addError(field.Required(path.Child(target, "bus"), ""))
	case !b.On(g.spec.Architecture) || !b.Has(target):
		g.addError(field.NotSupported(path.Child(target, "bus"), bus, hardware.BusesFor(g.spec.Architecture, target)))
	}
}

// checkVolume adds an error if the disk has no volume. A CD-ROM drive may be empty.
func (g *guest) checkVolume(d *v1.Disk, path *field.Path) {
	volume := g.volumes[d.Name]
	switch {
	case volume == nil && d.CDRom == nil:
		g.addError(field.Invalid(path.Child("name"), d.Name, "no volume has this name"))
	case volume != nil && volume.MemoryDump != nil:
		g.addError(field.Invalid(path.Child("name"), d.Name, "a memory dump cannot be a disk"))
	}
}

// diskDriver has what the guest sees of <driver>: queues and IOMMU are features of the virtio device. It is nil without them; the backend adds
// the rest. queues is the number of vCPUs at boot, as in KubeVirt, and stays when sockets are hot-plugged.
func (g *guest) diskDriver(name string) *libvirtxml.DomainDiskDriver {
	out := libvirtxml.DomainDiskDriver{IOMMU: g.virtioIOMMU()}
	metrics := g.volumes[name] != nil && g.volumes[name].DownwardMetrics != nil // one page of text needs no queues
	if ptr.Deref(g.dev.BlockMultiQueue, false) && !metrics {
		queues := g.bootCPUs()
		out.Queues = &queues
	}
	return attr.UnlessEmpty(out)
}

// blockSize returns nil if neither blockSize.custom nor blockSize.matchVolume is on: QEMU's default is 512 bytes.
func (g *guest) blockSize(d *v1.Disk, path *field.Path) *libvirtxml.DomainDiskBlockIO {
	size := v1.CustomBlockSize{}
	switch b := d.BlockSize; {
	case b == nil:
		return nil
	case b.Custom != nil:
		size = *b.Custom
	case b.MatchVolume == nil:
		return nil
	default:
		path = path.Child("blockSize", "matchVolume")
		if !g.isEnabled(b.MatchVolume, path) {
			return nil
		}
		size = g.volumeBlockSize(d, path)
	}
	return &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: size.Logical, PhysicalBlockSize: size.Physical, DiscardGranularity: size.DiscardGranularity}
}

// volumeBlockSize returns the block size of the volume at the first boot. The record wins over later hosts, because a file system made for 512
// bytes is not found on a disk of 4096.
func (g *guest) volumeBlockSize(d *v1.Disk, path *field.Path) v1.CustomBlockSize {
	if g.Frozen != nil {
		if recorded, found := g.Frozen.BlockSizes[d.Name]; found {
			size := v1.CustomBlockSize{Logical: recorded.Logical, Physical: recorded.Physical}
			if recorded.Discard > 0 {
				size.DiscardGranularity = &recorded.Discard
			}
			return size
		}
	}
	size, known := g.Facts.BlockSizes[d.Name]
	bus := hardware.Bus(busOf(d))
	switch {
	case !known:
		g.addError(field.Invalid(path, d.Name, "the block size of this volume is not known; set blockSize.custom"))
	case bus.BlockSize != 0 && size.Logical != bus.BlockSize:
		g.addError(field.Invalid(path, d.Name, fmt.Sprintf(
			"the volume has blocks of %d bytes, and bus '%s' supports %d only; use another bus or set blockSize.custom", size.Logical, bus.Name, bus.BlockSize)))
	}
	return size
}

// busOf returns the bus of a drive; empty without a target.
func busOf(d *v1.Disk) v1.DiskBus {
	switch {
	case d.Disk != nil:
		return d.Disk.Bus
	case d.LUN != nil:
		return d.LUN.Bus
	case d.CDRom != nil:
		return d.CDRom.Bus
	}
	return ""
}

// bootElement returns the boot order of a device; the lowest number boots first.
func bootElement(order *uint) *libvirtxml.DomainDeviceBoot {
	if order == nil {
		return nil
	}
	return &libvirtxml.DomainDeviceBoot{Order: *order}
}

// renderFilesystems returns virtio-fs devices. The name is the tag by which the guest mounts the file system.
func (g *guest) renderFilesystems() []libvirtxml.DomainFilesystem {
	var out []libvirtxml.DomainFilesystem
	for i, f := range g.dev.Filesystems {
		path := g.devPath.Child("filesystems").Index(i)
		g.checkName(f.Name, path)
		if f.Virtiofs == nil {
			g.addError(field.Required(path.Child("virtiofs"), ""))
		}
		g.addPin("filesystem", f.Name, pin{path: path})
		out = append(out, libvirtxml.DomainFilesystem{
			AccessMode: "passthrough",
			Source:     &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{}},
			Driver:     &libvirtxml.DomainFilesystemDriver{Type: "virtiofs", IOMMU: g.virtioIOMMU()},
			Target:     &libvirtxml.DomainFilesystemTarget{Dir: f.Name},
			Alias:      abi.BoundAlias("filesystem", f.Name),
		})
	}
	return out
}
