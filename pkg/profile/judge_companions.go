package profile

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// addCompanions adds to the content of a profile what a VM would bring with it: the volume of a disk, the network of an interface, the bus of a disk. If there
// is a choice, the trial of a family of rules makes another one than the plain trial, whose family is empty.
func addCompanions(vmi *v1.VirtualMachineInstance, family string) {
	spec := &vmi.Spec
	addSeedVolumes(spec)
	completeFilesystems(spec)
	completeDisks(spec, family == "disks")
	completeNetworks(spec, family == "networks")
	declareClaims(spec)
	leaveOneBootDisplay(spec)
	completeRequests(&spec.Domain)
	chooseEncryption(spec)
	completeNUMANodes(vmi)
	if family == "cpu" {
		mirrorNUMANodes(&spec.Domain)
	}
}

// leaveOneBootDisplay leaves the guest one boot display: if a GPU of the profile does not say whether its display is a boot display, the VM says that it is
// not.
func leaveOneBootDisplay(spec *v1.VirtualMachineInstanceSpec) {
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

// completeFilesystems gives each file system a volume, and each volume a file system, which shows a directory to the guest.
func completeFilesystems(spec *v1.VirtualMachineInstanceSpec) {
	for _, shared := range spec.Domain.Devices.Filesystems {
		source := v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}
		source.ConfigMap.Name = shared.Name
		addVolume(spec, shared.Name, source)
	}
	for _, volume := range spec.Volumes {
		if !isPresented(spec, volume.Name) {
			shared := v1.Filesystem{Name: volume.Name, Virtiofs: &v1.FilesystemVirtiofs{}}
			spec.Domain.Devices.Filesystems = append(spec.Domain.Devices.Filesystems, shared)
		}
	}
}

// isPresented reports whether the guest sees a volume.
func isPresented(spec *v1.VirtualMachineInstanceSpec, name string) bool {
	devices := &spec.Domain.Devices
	return slices.ContainsFunc(devices.Disks, func(d v1.Disk) bool { return d.Name == name }) ||
		slices.ContainsFunc(devices.Filesystems, func(f v1.Filesystem) bool { return f.Name == name })
}

// completeDisks gives each disk a volume, a target, a cache, and a bus that guests of every architecture have. again asks for the second choice.
func completeDisks(spec *v1.VirtualMachineInstanceSpec, again bool) {
	buses, busOfLUN := hardware.PortableBuses(hardware.Disk), hardware.PortableBuses(hardware.LUN)[0]
	bus := buses[0]
	if again {
		bus = buses[1]
	}
	for i := range spec.Domain.Devices.Disks {
		disk := &spec.Domain.Devices.Disks[i]
		addVolume(spec, disk.Name, claimSource(disk.Name))
		if disk.DiskDevice == (v1.DiskDevice{}) {
			disk.Disk = &v1.DiskTarget{}
		}
		if disk.Disk != nil {
			disk.Disk.Bus = cmp.Or(disk.Disk.Bus, bus)
		}
		if disk.LUN != nil {
			disk.LUN.Bus = cmp.Or(disk.LUN.Bus, busOfLUN)
		}
		disk.Cache = cmp.Or(disk.Cache, v1.CacheNone)
		if size := disk.BlockSize; size != nil && size.Custom != nil {
			size.Custom.Physical = cmp.Or(size.Custom.Physical, size.Custom.Logical)
			if again {
				size.Custom.Logical = cmp.Or(size.Custom.Logical, 512)
			}
			size.Custom.Logical = cmp.Or(size.Custom.Logical, size.Custom.Physical)
		}
	}
}

func claimSource(name string) v1.VolumeSource {
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

// declareClaims declares the resource claims that devices and networks use.
func declareClaims(spec *v1.VirtualMachineInstanceSpec) {
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

// addSeedVolumes adds the volumes that access credentials and ACPI tables are in.
func addSeedVolumes(spec *v1.VirtualMachineInstanceSpec) {
	for _, credential := range spec.AccessCredentials {
		if key := credential.SSHPublicKey; key != nil && key.PropagationMethod.ConfigDrive != nil {
			addVolume(spec, "trial-config", v1.VolumeSource{CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: "#cloud-config"}})
		} else {
			addVolume(spec, "trial-seed", v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "#cloud-config"}})
		}
	}
	if firmware := spec.Domain.Firmware; firmware != nil && firmware.ACPI != nil {
		for _, name := range []string{firmware.ACPI.SlicNameRef, firmware.ACPI.MsdmNameRef} {
			addVolume(spec, name, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "trial"}})
		}
	}
}

// completeRequests gives a guest the CPUs that are requested, and a guest whose memory is no whole number of pages a request that is one.
func completeRequests(domain *v1.DomainSpec) {
	if wanted := cmp.Or(domain.Resources.Requests.Cpu().Value(), domain.Resources.Limits.Cpu().Value()); wanted > 0 {
		if domain.CPU == nil {
			domain.CPU = &v1.CPU{}
		}
		cpu := domain.CPU
		for _, open := range []*uint32{&cpu.Cores, &cpu.Sockets, &cpu.Threads} {
			has := int64(max(cpu.Cores, 1)) * int64(max(cpu.Sockets, 1)) * int64(max(cpu.Threads, 1))
			if *open == 0 {
				*open = uint32(min(max(wanted/has, 1), math.MaxInt32))
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

// chooseEncryption picks the kind of memory encryption for a VMI that has some.
func chooseEncryption(spec *v1.VirtualMachineInstanceSpec) {
	if security := spec.Domain.LaunchSecurity; security != nil && *security == (v1.LaunchSecurity{}) {
		security.TDX = &v1.TDX{}
	}
}

// mirrorNUMANodes mirrors the NUMA nodes of the host for a real-time guest.
func mirrorNUMANodes(domain *v1.DomainSpec) {
	if cpu := domain.CPU; cpu != nil && cpu.Realtime != nil && cpu.NUMA == nil {
		cpu.NUMA = &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}
	}
}

// completeNUMANodes gives a VMI of several NUMA nodes sockets and memory for each.
func completeNUMANodes(vmi *v1.VirtualMachineInstance) {
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

// completeNetworks gives each interface a binding and a network, and each network an interface. One of several networks is the pod's, which probes need. again
// asks for the second choice.
func completeNetworks(spec *v1.VirtualMachineInstanceSpec, again bool) {
	binding := v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}
	if again {
		binding = v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}
	}
	devices := &spec.Domain.Devices
	if len(spec.Networks)+len(devices.Interfaces) == 0 {
		return // the defaults attach the network of the pod
	}
	for _, n := range spec.Networks {
		if n.Name != "" && !slices.ContainsFunc(devices.Interfaces, func(iface v1.Interface) bool { return iface.Name == n.Name }) {
			devices.Interfaces = append(devices.Interfaces, v1.Interface{Name: n.Name})
		}
	}
	pod := slices.ContainsFunc(spec.Networks, func(n v1.Network) bool { return n.Pod != nil || n.Multus != nil && n.Multus.Default })
	for i := range devices.Interfaces {
		if devices.Interfaces[i].Name != "" {
			pod = connectInterface(spec, &devices.Interfaces[i], binding, pod)
		}
	}
	if !pod {
		spec.Networks = append(spec.Networks, v1.Network{Name: "trial-pod", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}})
		devices.Interfaces = append(devices.Interfaces,
			v1.Interface{Name: "trial-pod", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}})
	}
}

// connectInterface gives an interface a binding and its network a source. pod reports whether a network is the pod's, before and after.
func connectInterface(spec *v1.VirtualMachineInstanceSpec, iface *v1.Interface, binding v1.InterfaceBindingMethod, pod bool) bool {
	at := slices.IndexFunc(spec.Networks, func(n v1.Network) bool { return n.Name == iface.Name })
	if at < 0 {
		at = len(spec.Networks)
		spec.Networks = append(spec.Networks, v1.Network{Name: iface.Name})
	}
	n := &spec.Networks[at]
	if iface.InterfaceBindingMethod == (v1.InterfaceBindingMethod{}) && iface.Binding == nil {
		switch {
		case n.ResourceClaim != nil:
			binding = v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}
		case n.Pod == nil && (n.Multus != nil || pod):
			binding = v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}
		}
		iface.InterfaceBindingMethod = binding
	}
	switch {
	case n.NetworkSource != (v1.NetworkSource{}):
	case !pod && (iface.Masquerade != nil || iface.PasstBinding != nil):
		n.Pod, pod = &v1.PodNetwork{}, true
	default:
		n.Multus = &v1.MultusNetwork{NetworkName: "trial"}
	}
	return pod
}
