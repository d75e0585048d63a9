package imported

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// readDisks reads all drives. A floppy drive is left out.
func (r *reader) readDisks() {
	named := map[string]bool{}
	for i := range r.dom.Devices.Disks {
		given := &r.dom.Devices.Disks[i]
		if given.Device == "floppy" || given.Target != nil && given.Target.Bus == "fdc" {
			r.leaveOut("disk", i, "a VM has no floppy drive: put the files onto a CD-ROM")
			continue
		}
		name := diskName(given, i)
		if named[name] {
			name = fmt.Sprintf("disk%d", i)
		}
		named[name] = true
		r.readDisk(given, name)
	}
	disks := r.dom.Devices.Disks
	r.devices.UseVirtioTransitional = trueIf(slices.ContainsFunc(disks, func(d libvirtxml.DomainDisk) bool { return d.Model == transitional }) ||
		slices.ContainsFunc(r.dom.Devices.Interfaces, func(i libvirtxml.DomainInterface) bool { return i.Model != nil && i.Model.Type == transitional }))
	r.devices.BlockMultiQueue = trueIf(slices.ContainsFunc(disks, func(d libvirtxml.DomainDisk) bool {
		return d.Driver != nil && ptr.Deref(d.Driver.Queues, 0) > 1
	}))
}

const transitional = "virtio-transitional"

// trueIf returns true or nil, the default.
func trueIf(set bool) *bool {
	if !set {
		return nil
	}
	return &set
}

var targetName = regexp.MustCompile(`^[a-z]{2,4}$`)

// diskName returns the target name, such as vda, or a name by the index.
func diskName(given *libvirtxml.DomainDisk, index int) string {
	if given.Target != nil && targetName.MatchString(given.Target.Dev) {
		return given.Target.Dev
	}
	return fmt.Sprintf("disk%d", index)
}

// readDisk reads one drive and its image.
func (r *reader) readDisk(given *libvirtxml.DomainDisk, name string) {
	given.Alias = abi.BoundAlias("disk", name)
	disk := v1.Disk{Name: name, Shareable: trueIf(given.Shareable != nil)}
	bus := ""
	if given.Target != nil {
		bus = given.Target.Bus
	}
	switch given.Device {
	case "cdrom":
		disk.CDRom = &v1.CDRomTarget{Bus: r.nearestBus(bus, hardware.CDROM), ReadOnly: ptr.To(true)}
		if given.Target != nil && given.Target.Tray == "open" {
			disk.CDRom.Tray = v1.TrayStateOpen
		}
	case "lun":
		disk.LUN = &v1.LunTarget{Bus: r.nearestBus(bus, hardware.LUN), ReadOnly: given.ReadOnly != nil}
	default:
		disk.Disk = &v1.DiskTarget{Bus: r.nearestBus(bus, hardware.Disk), ReadOnly: given.ReadOnly != nil}
		disk.Serial = given.Serial
	}
	if size := given.BlockIO; size != nil && size.LogicalBlockSize > 0 {
		custom := &v1.CustomBlockSize{Logical: size.LogicalBlockSize, Physical: cmp.Or(size.PhysicalBlockSize, size.LogicalBlockSize)}
		custom.DiscardGranularity = size.DiscardGranularity
		disk.BlockSize = &v1.BlockSize{Custom: custom}
	}
	if given.Driver != nil {
		r.readDriver(&disk, given.Driver)
	}
	r.devices.Disks = append(r.devices.Disks, disk)
	if source := imageOf(given); source != "" || given.Device != "cdrom" {
		r.addClaim("disk", name, source, formatOf(given))
	}
}

// nearestBus returns the bus, or a bus that the architecture has for this kind of drive.
func (r *reader) nearestBus(bus, target string) v1.DiskBus {
	if b := hardware.Bus(bus); b.On(r.arch) && b.Has(target) {
		return b.Name
	}
	buses := hardware.BusesFor(r.arch, target)
	for _, preferred := range []v1.DiskBus{v1.DiskBusSATA, v1.DiskBusVirtio} { // IDE and SATA need the same driver in many guests
		if (bus == "ide" || target == hardware.CDROM) && preferred == v1.DiskBusVirtio {
			continue
		}
		if slices.Contains(buses, preferred) && (preferred != v1.DiskBusSATA || bus == "ide" || target == hardware.CDROM) {
			return preferred
		}
	}
	return v1.DiskBusSCSI
}

// readDriver reads what a VM may say about cache, IO and errors.
func (r *reader) readDriver(disk *v1.Disk, driver *libvirtxml.DomainDiskDriver) {
	switch cache := v1.DriverCache(driver.Cache); cache {
	case v1.CacheNone, v1.CacheWriteThrough, v1.CacheWriteBack:
		disk.Cache = cache
	}
	switch io := v1.DriverIO(driver.IO); io {
	case v1.IONative, v1.IOThreads:
		disk.IO = io
	}
	switch policy := v1.DiskErrorPolicy(driver.ErrorPolicy); policy {
	case v1.DiskErrorPolicyStop, v1.DiskErrorPolicyIgnore, v1.DiskErrorPolicyReport, v1.DiskErrorPolicyEnospace:
		disk.ErrorPolicy = &policy
	}
}

// addClaim adds the volume of a disk or filesystem: the claim that the user named, or a claim that must be filled.
func (r *reader) addClaim(kind, name, from, format string) {
	claim, given := r.Claims[name]
	source := Source{Device: kind + "." + name, From: from, Format: format}
	if !given {
		claim = objectName(r.VM.Name[:min(len(r.VM.Name), 40)] + "-" + name)
		source.Claim = claim
	}
	source.To = "PersistentVolumeClaim " + claim
	r.Sources = append(r.Sources, source)
	r.spec.Volumes = append(r.spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
		PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}})
}

// formatOf returns the format of an image, such as qcow2.
func formatOf(given *libvirtxml.DomainDisk) string {
	if given.Driver == nil {
		return ""
	}
	return given.Driver.Type
}

// imageOf returns where the image of a drive is on the host; empty for an empty drive.
func imageOf(given *libvirtxml.DomainDisk) string {
	source := given.Source
	switch {
	case source == nil:
		return ""
	case source.File != nil:
		return source.File.File
	case source.Block != nil:
		return source.Block.Dev
	case source.Dir != nil:
		return source.Dir.Dir
	case source.Volume != nil && source.Volume.Pool != "":
		return path.Join(source.Volume.Pool, source.Volume.Volume)
	case source.Network != nil:
		host := ""
		if len(source.Network.Hosts) > 0 {
			host = source.Network.Hosts[0].Name
		}
		return source.Network.Protocol + "://" + path.Join(host, source.Network.Name)
	case source.NVME != nil:
		return "an NVMe namespace of the host"
	case source.VHostUser != nil || source.VHostVDPA != nil:
		return "a device of the host"
	}
	return ""
}
