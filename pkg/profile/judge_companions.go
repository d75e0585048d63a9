package profile

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// What a profile leaves open, a VM may bring: the volume of a disk, the network of an interface, the bus of a disk. There is more than one way to
// bring most of it, and a rule may need another one than its neighbour: each trial goes another way.

// way is the number of a trial on one architecture. Each of its parts comes round often enough to meet each other one.
type way int

// of returns the element of a list that a way takes.
func of[T any](all []T, way way) T { return all[int(way)%len(all)] }

// accompany adds to the content of a profile what a VM would bring with it.
func accompany(vmi *v1.VirtualMachineInstance, way way) {
	spec := &vmi.Spec
	seeds(spec, way)
	filesystems(spec, way)
	disks(spec, way)
	networks(spec, way)
	claims(spec)
	bootDisplays(spec)
	requests(&spec.Domain, way)
	encryption(spec, way)
	nodes(vmi)
}

// bootDisplays leaves the guest one boot display: where a GPU of the profile does not say whether its display is one, that of the VM says no.
func bootDisplays(spec *v1.VirtualMachineInstanceSpec) {
	found := false
	for i := range spec.Domain.Devices.GPUs {
		gpu := &spec.Domain.Devices.GPUs[i]
		if !vm.BootDisplay(gpu.VirtualGPUOptions) {
			continue
		}
		display := gpu.VirtualGPUOptions.Display
		if found && (display.RamFB == nil || display.RamFB.Enabled == nil) {
			display.RamFB = &v1.FeatureState{Enabled: new(bool)}
		}
		found = true
	}
}

// filesystems gives each file system a volume, and in some ways each volume a file system.
func filesystems(spec *v1.VirtualMachineInstanceSpec, way way) {
	for _, shared := range spec.Domain.Devices.Filesystems {
		source := of([]v1.VolumeSource{claimed(shared.Name), {ConfigMap: &v1.ConfigMapVolumeSource{}}}, way)
		if source.ConfigMap != nil {
			source.ConfigMap.Name = shared.Name
		}
		addVolume(spec, shared.Name, source)
	}
	if way%3 != 1 {
		return // a volume without a disk gets one from the defaults
	}
	for _, volume := range spec.Volumes {
		if !presented(spec, volume.Name) {
			shared := v1.Filesystem{Name: volume.Name, Virtiofs: &v1.FilesystemVirtiofs{}}
			spec.Domain.Devices.Filesystems = append(spec.Domain.Devices.Filesystems, shared)
		}
	}
}

// presented reports whether the guest sees a volume.
func presented(spec *v1.VirtualMachineInstanceSpec, name string) bool {
	devices := &spec.Domain.Devices
	return slices.ContainsFunc(devices.Disks, func(d v1.Disk) bool { return d.Name == name }) ||
		slices.ContainsFunc(devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == name })
}

// buses are those that disks are tried on; empty for that of the defaults.
var buses = []v1.DiskBus{"", v1.DiskBusVirtio, v1.DiskBusSCSI, v1.DiskBusSATA}

// disks gives each disk a volume and a target, and each volume of a profile that is not presented a disk.
func disks(spec *v1.VirtualMachineInstanceSpec, way way) {
	bus := of(buses, way)
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		addVolume(spec, disk.Name, claimed(disk.Name))
		if way > 0 && disk.Disk == nil && disk.CDRom == nil && disk.LUN == nil {
			*disk = aimed(*disk, way)
		}
		if target := disk.Disk; target != nil {
			target.Bus = cmp.Or(target.Bus, bus)
		}
		if target := disk.LUN; target != nil {
			target.Bus = cmp.Or(target.Bus, bus)
		}
		if target := disk.CDRom; target != nil && bus != v1.DiskBusVirtio {
			target.Bus = cmp.Or(target.Bus, bus)
		}
		if way%2 == 1 {
			disk.Cache = cmp.Or(disk.Cache, v1.CacheNone)
		}
		if size := disk.BlockSize; size != nil && size.Custom != nil {
			size.Custom.Physical = cmp.Or(size.Custom.Physical, size.Custom.Logical)
			size.Custom.Logical = cmp.Or(size.Custom.Logical, of([]uint{512, size.Custom.Physical}, way))
		}
	}
}

// aimed gives a disk a target.
func aimed(disk v1.Disk, way way) v1.Disk {
	disk.DiskDevice = of([]v1.DiskDevice{{Disk: &v1.DiskTarget{}}, {Disk: &v1.DiskTarget{}}, {LUN: &v1.LunTarget{}}, {CDRom: &v1.CDRomTarget{}}}, way)
	return disk
}

func claimed(name string) v1.VolumeSource {
	source := &v1.PersistentVolumeClaimVolumeSource{}
	source.ClaimName = name
	return v1.VolumeSource{PersistentVolumeClaim: source}
}

// addVolume adds a volume, or gives a source to one that has none.
func addVolume(spec *v1.VirtualMachineInstanceSpec, name string, source v1.VolumeSource) {
	if name == "" {
		return
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].Name == name {
			if spec.Volumes[i].VolumeSource == (v1.VolumeSource{}) {
				spec.Volumes[i].VolumeSource = source
			}
			return
		}
	}
	spec.Volumes = append(spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
}

// claims declares the resource claims that devices and networks use.
func claims(spec *v1.VirtualMachineInstanceSpec) {
	declare := func(request *v1.ClaimRequest) {
		if request == nil || request.ClaimName == "" ||
			slices.ContainsFunc(spec.ResourceClaims, func(c v1.VirtualMachineInstanceResourceClaim) bool { return c.Name == request.ClaimName }) {
			return
		}
		claim := v1.VirtualMachineInstanceResourceClaim{Name: request.ClaimName, ResourceClaimTemplateName: new("trial")}
		spec.ResourceClaims = append(spec.ResourceClaims, claim)
	}
	for i := range spec.Domain.Devices.GPUs {
		declare(spec.Domain.Devices.GPUs[i].ClaimRequest)
	}
	for i := range spec.Domain.Devices.HostDevices {
		declare(spec.Domain.Devices.HostDevices[i].ClaimRequest)
	}
	for i := range spec.Networks {
		declare(spec.Networks[i].ResourceClaim)
	}
}

// seeds adds the volumes that access credentials and ACPI tables are in.
func seeds(spec *v1.VirtualMachineInstanceSpec, way way) {
	if len(spec.AccessCredentials) > 0 {
		source := v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config"}}
		if way%2 == 1 {
			source = v1.VolumeSource{CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: "#cloud-config"}}
		}
		addVolume(spec, "trial-seed", source)
	}
	if firmware := spec.Domain.Firmware; firmware != nil && firmware.ACPI != nil {
		for _, name := range []string{firmware.ACPI.SlicNameRef, firmware.ACPI.MsdmNameRef} {
			addVolume(spec, name, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "trial"}})
		}
	}
}

// requests gives dedicated CPUs the number that is requested, and a guest whose memory is no whole number of pages a request that is one.
func requests(domain *v1.DomainSpec, way way) {
	if way%2 == 0 {
		return
	}
	if cpu := domain.CPU; cpu != nil {
		wanted := cmp.Or(domain.Resources.Requests.Cpu().Value(), domain.Resources.Limits.Cpu().Value())
		for _, open := range []*uint32{&cpu.Cores, &cpu.Sockets, &cpu.Threads} {
			if has := int64(max(cpu.Cores, 1)) * int64(max(cpu.Sockets, 1)) * int64(max(cpu.Threads, 1)); *open == 0 && wanted > has {
				*open = uint32(min(wanted/has, math.MaxInt32))
			}
		}
	}
	memory := domain.Memory
	if memory == nil || memory.Guest == nil || memory.Hugepages == nil || !domain.Resources.Requests.Memory().IsZero() {
		return
	}
	page, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil || page.Value() <= 0 {
		return
	}
	pages := (memory.Guest.Value()-1)/page.Value() + 1
	if domain.Resources.Requests == nil {
		domain.Resources.Requests = corev1.ResourceList{}
	}
	domain.Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(pages*page.Value(), resource.BinarySI)
}

// encryption picks the kind of memory encryption for a VMI that has some.
func encryption(spec *v1.VirtualMachineInstanceSpec, way way) {
	if security := spec.Domain.LaunchSecurity; security != nil && *security == (v1.LaunchSecurity{}) {
		*security = of([]v1.LaunchSecurity{{TDX: &v1.TDX{}}, {SEV: &v1.SEV{}}, {SNP: &v1.SEVSNP{}}}, way)
	}
}

// nodes gives a VMI of several NUMA nodes sockets and memory for each.
func nodes(vmi *v1.VirtualMachineInstance) {
	n, err := strconv.Atoi(vmi.Annotations[v1alpha1.AnnotationNUMACells])
	if err != nil || n < 1 || n > 64 {
		return
	}
	domain := &vmi.Spec.Domain
	if domain.CPU == nil {
		domain.CPU = &v1.CPU{}
	}
	if domain.CPU.Sockets == 0 {
		domain.CPU.Sockets = uint32(n)
	}
	if domain.Memory == nil {
		domain.Memory = &v1.Memory{}
	}
	if _, requested := domain.Resources.Requests[corev1.ResourceMemory]; domain.Memory.Guest == nil && !requested {
		domain.Memory.Guest = resource.NewQuantity(int64(n)<<30, resource.BinarySI)
	}
}
