package validate

import (
	"encoding/base64"
	"fmt"
	"regexp"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.disks, volumes, filesystems.

// Limits of a serial: what KubeVirt's API promises; QEMU passes on less on most buses (20 characters for virtio).
const maxSerial = 256

var serialForm = regexp.MustCompile(`^[A-Za-z0-9_.+-]*$`)

var (
	diskBuses   = []v1.DiskBus{v1.DiskBusSATA, v1.DiskBusSCSI, v1.DiskBusUSB, v1.DiskBusVirtio}
	cdromBuses  = []v1.DiskBus{v1.DiskBusSATA, v1.DiskBusSCSI, v1.DiskBusUSB}
	noSATABuses = []v1.DiskBus{v1.DiskBusSCSI, v1.DiskBusVirtio}
	caches      = []v1.DriverCache{v1.CacheNone, v1.CacheWriteBack, v1.CacheWriteThrough}
	ios         = []v1.DriverIO{v1.IONative, v1.IOThreads}
)

func disks(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	at := spec.Child("domain", "devices", "disks")
	sources := map[string]bool{}
	for _, volume := range guest.Volumes {
		sources[volume.Name] = true
	}
	seen := map[string]bool{}
	for i, disk := range guest.Domain.Devices.Disks {
		at := at.Index(i)
		if seen[disk.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), disk.Name))
		}
		seen[disk.Name] = true
		for _, problem := range validation.IsDNS1123Label(disk.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), disk.Name, problem))
		}
		if !sources[disk.Name] && disk.CDRom == nil {
			errs = append(errs, field.Invalid(at.Child("name"), disk.Name, "no volume has this name: add one, or correct the name"))
		}
		errs = append(errs, diskTarget(disk, guest.Architecture, at)...)
		errs = append(errs, diskDriver(disk, at)...)
	}
	return errs
}

func diskTarget(disk v1.Disk, architecture string, at *field.Path) (errs field.ErrorList) {
	given := 0
	for _, set := range []bool{disk.Disk != nil, disk.LUN != nil, disk.CDRom != nil} {
		if set {
			given++
		}
	}
	if given > 1 {
		errs = append(errs, field.Forbidden(at, "only one of disk, lun and cdrom may be set"))
	}
	all := diskBuses
	if architecture != "amd64" {
		all = noSATABuses
	}
	switch {
	case disk.Disk != nil:
		errs = append(errs, supported(disk.Disk.Bus, all, at.Child("disk", "bus"))...)
		if disk.Disk.PciAddress != "" && disk.Disk.Bus != v1.DiskBusVirtio {
			errs = append(errs, field.Forbidden(at.Child("disk", "pciAddress"), "only disks on bus 'virtio' are PCI devices"))
		}
		if disk.Disk.ReadOnly && disk.Disk.Bus == v1.DiskBusSATA {
			errs = append(errs, field.Forbidden(at.Child("disk", "readonly"), "a SATA disk cannot be read-only; use a CD-ROM or another bus"))
		}
	case disk.CDRom != nil:
		buses := cdromBuses
		if architecture != "amd64" {
			buses = []v1.DiskBus{v1.DiskBusSCSI}
		}
		errs = append(errs, supported(disk.CDRom.Bus, buses, at.Child("cdrom", "bus"))...)
	case disk.LUN != nil:
		errs = append(errs, supported(disk.LUN.Bus, all, at.Child("lun", "bus"))...)
	}
	return errs
}

func diskDriver(disk v1.Disk, at *field.Path) (errs field.ErrorList) {
	if !serialForm.MatchString(disk.Serial) {
		errs = append(errs, field.Invalid(at.Child("serial"), disk.Serial, "may have letters, digits and the characters '_', '.', '+' and '-' only"))
	}
	if len(disk.Serial) > maxSerial {
		errs = append(errs, field.TooLong(at.Child("serial"), disk.Serial, maxSerial))
	}
	if disk.Cache != "" {
		errs = append(errs, supported(disk.Cache, caches, at.Child("cache"))...)
	}
	if disk.IO != "" {
		errs = append(errs, supported(disk.IO, ios, at.Child("io"))...)
	}
	virtio := disk.Disk != nil && disk.Disk.Bus == v1.DiskBusVirtio
	if disk.DedicatedIOThread != nil && *disk.DedicatedIOThread && !virtio {
		errs = append(errs, field.Forbidden(at.Child("dedicatedIOThread"), "only disks on bus 'virtio' have IO threads"))
	}
	return errs
}

// bootOrders: the firmware tries devices in this order, so that each has a place of its own.
func bootOrders(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	seen := map[uint]bool{}
	check := func(order *uint, at *field.Path) {
		switch {
		case order == nil:
		case *order < 1:
			errs = append(errs, field.Invalid(at, *order, "must be 1 or greater"))
		case seen[*order]:
			errs = append(errs, field.Duplicate(at, *order))
		default:
			seen[*order] = true
		}
	}
	devices := spec.Child("domain", "devices")
	for i, disk := range guest.Domain.Devices.Disks {
		check(disk.BootOrder, devices.Child("disks").Index(i).Child("bootOrder"))
	}
	for i, nic := range guest.Domain.Devices.Interfaces {
		check(nic.BootOrder, devices.Child("interfaces").Index(i).Child("bootOrder"))
	}
	return errs
}

// maxCloudInit is what cloud-init's data may have inline, in bytes; longer data belongs into a Secret.
const maxCloudInit = 2048

func volumes(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, volume := range guest.Volumes {
		at := spec.Child("volumes").Index(i)
		if seen[volume.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), volume.Name))
		}
		seen[volume.Name] = true
		if n := sourceCount(volume.VolumeSource); n != 1 {
			errs = append(errs, field.Invalid(at, volume.Name, fmt.Sprintf("must have exactly one source, has %d", n)))
		}
		switch {
		case volume.HostDisk != nil:
			errs = append(errs, hostDisk(volume.HostDisk, limits, at.Child("hostDisk"))...)
		case volume.ContainerDisk != nil:
			errs = append(errs, imagePath(volume.ContainerDisk.Path, at.Child("containerDisk", "path"))...)
		case volume.CloudInitNoCloud != nil:
			c := volume.CloudInitNoCloud
			errs = append(errs, cloudInit(cloudInitData{c.UserData, c.UserDataBase64, c.UserDataSecretRef != nil, c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef != nil}, at.Child("cloudInitNoCloud"))...)
		case volume.CloudInitConfigDrive != nil:
			c := volume.CloudInitConfigDrive
			errs = append(errs, cloudInit(cloudInitData{c.UserData, c.UserDataBase64, c.UserDataSecretRef != nil, c.NetworkData, c.NetworkDataBase64, c.NetworkDataSecretRef != nil}, at.Child("cloudInitConfigDrive"))...)
		}
	}
	return errs
}

func sourceCount(s v1.VolumeSource) (n int) {
	for _, set := range []bool{s.HostDisk != nil, s.PersistentVolumeClaim != nil, s.CloudInitNoCloud != nil, s.CloudInitConfigDrive != nil,
		s.Sysprep != nil, s.ContainerDisk != nil, s.Ephemeral != nil, s.EmptyDisk != nil, s.DataVolume != nil, s.ConfigMap != nil, s.Secret != nil,
		s.DownwardAPI != nil, s.ServiceAccount != nil, s.DownwardMetrics != nil, s.MemoryDump != nil, s.ContainerPath != nil} {
		if set {
			n++
		}
	}
	return n
}

func hostDisk(disk *v1.HostDisk, limits config.Limits, at *field.Path) (errs field.ErrorList) {
	if !limits.Gates.Enabled("HostDisk") {
		errs = append(errs, field.Forbidden(at, "the cluster's feature gate 'HostDisk' is off: a host disk reads and writes files of the node"))
	}
	if disk.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	kinds := []v1.HostDiskType{v1.HostDiskExists, v1.HostDiskExistsOrCreate}
	errs = append(errs, supported(disk.Type, kinds, at.Child("type"))...)
	if disk.Type == v1.HostDiskExists && !disk.Capacity.IsZero() {
		errs = append(errs, field.Forbidden(at.Child("capacity"), "a disk that exists has its own; use type 'DiskOrCreate'"))
	}
	return errs
}

// cloudInitData is what both cloud-init volumes have.
type cloudInitData struct {
	user, user64   string
	userSecret     bool
	network, net64 string
	networkSecret  bool
}

func cloudInit(data cloudInitData, at *field.Path) (errs field.ErrorList) {
	one := func(plain, encoded string, secret bool, name string) bool {
		n := 0
		for _, set := range []bool{plain != "", encoded != "", secret} {
			if set {
				n++
			}
		}
		if n > 1 {
			errs = append(errs, field.Forbidden(at.Child(name), "only one of `"+name+"`, `"+name+"Base64` and the Secret may be set"))
		}
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(name+"Base64"), "(hidden)", "must be base64"))
		}
		if len(plain) > maxCloudInit {
			errs = append(errs, field.TooLong(at.Child(name), "", maxCloudInit))
		} else if len(decoded) > maxCloudInit {
			errs = append(errs, field.TooLong(at.Child(name+"Base64"), "", maxCloudInit))
		}
		return n > 0
	}
	user := one(data.user, data.user64, data.userSecret, "userData")
	network := one(data.network, data.net64, data.networkSecret, "networkData")
	if !user && !network {
		errs = append(errs, field.Required(at.Child("userData"), "give user data, network data or both"))
	}
	return errs
}
