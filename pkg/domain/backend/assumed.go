package backend

import (
	"maps"
	"path"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	v1 "kubevirt.io/api/core/v1"
)

// Assumed is the host that offline rendering assumes: QEMU in /usr/bin, firmware where Debian and Ubuntu install it, and two NUMA nodes of 288
// CPUs with their memory. It names no machines, so that every machine type is accepted. A VMI with numa.guestMappingPassthrough mirrors these
// NUMA nodes: its first boot on a real host may give it others.
func Assumed(architecture string) Capabilities {
	host := Capabilities{
		Architecture: architecture,
		VirtTypes:    []string{"kvm", "qemu"},
		Emulators: map[string]string{
			"amd64": "/usr/bin/qemu-system-x86_64", "arm64": "/usr/bin/qemu-system-aarch64", "s390x": "/usr/bin/qemu-system-s390x",
		},
	}
	q35, virt := []string{"q35", "pc-q35-*"}, []string{"virt", "virt-*"}
	host.Firmware = []Firmware{
		{Architecture: "amd64", Machines: q35, Features: []string{"secure-boot", "enrolled-keys", "requires-smm"},
			Code: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd", VarsTemplate: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd", Format: "raw"},
		{Architecture: "amd64", Machines: q35, Features: []string{"amd-sev", "amd-sev-es"},
			Code: "/usr/share/OVMF/OVMF_CODE_4M.fd", VarsTemplate: "/usr/share/OVMF/OVMF_VARS_4M.fd", Format: "raw"},
		{Architecture: "amd64", Machines: q35, Features: []string{"amd-sev-snp"}, Code: "/usr/share/ovmf/OVMF.amdsev.fd", Format: "raw"},
		{Architecture: "amd64", Machines: q35, Features: []string{"intel-tdx"}, Code: "/usr/share/ovmf/OVMF.inteltdx.fd", Format: "raw"},
		{Architecture: "amd64", Machines: q35, Features: []string{"intel-tdx", "secure-boot", "enrolled-keys"}, Code: "/usr/share/ovmf/OVMF.inteltdx.ms.fd",
			Format: "raw"},
		{Architecture: "arm64", Machines: virt, Features: []string{"secure-boot", "enrolled-keys"},
			Code: "/usr/share/AAVMF/AAVMF_CODE.ms.fd", VarsTemplate: "/usr/share/AAVMF/AAVMF_VARS.ms.fd", Format: "raw"},
		{Architecture: "arm64", Machines: virt, Code: "/usr/share/AAVMF/AAVMF_CODE.fd", VarsTemplate: "/usr/share/AAVMF/AAVMF_VARS.fd", Format: "raw"},
	}
	host.NUMA = []NUMANode{assumedNUMANode(0), assumedNUMANode(1)}
	return host
}

// KubeVirt's limit is 512 vCPUs. A VMI of that size fits the two NUMA nodes, with further CPUs for its emulator and IO threads.
const (
	assumedCPUs    = 288
	assumedMemory  = 4 << 30 // KiB
	assumedThreads = 2
)

// assumedNUMANode has consecutive CPUs, the threads of a core next to each other.
func assumedNUMANode(id int) NUMANode {
	node := NUMANode{ID: id, MemoryKiB: assumedMemory, Distances: map[int]uint{id: 10, 1 - id: 21}, CPUs: make([]CPU, assumedCPUs)}
	for i := range node.CPUs {
		node.CPUs[i] = CPU{ID: id*assumedCPUs + i, Socket: id, Core: i / assumedThreads}
	}
	return node
}

// AssumedBindings are the bindings that offline rendering assumes: files below /var/lib/kiln, user-mode networking for
// masquerade, bridge br0 for bridge, CPUs 0 to 575, and host devices next to NUMA node 0.
func AssumedBindings(vmi *v1.VirtualMachineInstance) Bindings {
	dir := path.Join("/var/lib/kiln", vmi.Namespace, vmi.Name)
	b := Bindings{
		Volumes: map[string]Volume{}, NICs: map[string]NIC{}, HostDevs: map[string]HostDev{}, Filesystems: map[string]string{},
		NVRAM: path.Join(dir, "nvram.fd"), VNC: path.Join(dir, "vnc.sock"), Serial: path.Join(dir, "serial.sock"),
		ACPITables:    map[string]string{"slic": path.Join(dir, "slic.bin"), "msdm": path.Join(dir, "msdm.bin")},
		FirmwareFiles: map[string]string{abi.Ignition: path.Join(dir, "ignition.json")},
	}
	for _, volume := range vmi.Spec.Volumes {
		assumed := assumedVolume(dir, volume)
		assumed.LogicalBlock, assumed.PhysicalBlock = assumedBlock, assumedBlock
		b.Volumes[volume.Name] = assumed
	}
	devices := vmi.Spec.Domain.Devices
	for _, nic := range devices.Interfaces {
		b.NICs[nic.Name] = assumedNIC(nic, devices)
	}
	for _, fs := range devices.Filesystems {
		b.Filesystems[fs.Name] = path.Join(dir, fs.Name+".virtiofs")
	}
	maps.Copy(b.HostDevs, assumedHostDevices(vmi))
	if cpu := vmi.Spec.Domain.CPU; cpu != nil && cpu.DedicatedCPUPlacement {
		sockets, cores, threads := vm.Topology(cpu)
		for i := range int(sockets*cores*threads) + assumedExtra(vmi) {
			b.CPUs = append(b.CPUs, i)
		}
	}
	if f := vmi.Spec.Domain.Firmware; f != nil && f.KernelBoot != nil && f.KernelBoot.Container != nil {
		if f.KernelBoot.Container.KernelPath != "" {
			b.Kernel = path.Join(dir, "kernel")
		}
		if f.KernelBoot.Container.InitrdPath != "" {
			b.Initrd = path.Join(dir, "initrd")
		}
	}
	return b
}

// assumedBlock is the block size that most devices report, in bytes.
const assumedBlock = 512

// assumedExtra returns how many dedicated CPUs a VMI needs besides one for each vCPU: one for the emulator, two with the annotation for an even number, and
// one for each thread of a supplemental pool.
func assumedExtra(vmi *v1.VirtualMachineInstance) int {
	extra, pool := 1, vmi.Spec.Domain.IOThreads
	if _, even := vmi.Annotations[v1.EmulatorThreadCompleteToEvenParity]; even {
		extra++
	}
	if policy := vmi.Spec.Domain.IOThreadsPolicy; policy != nil && *policy == v1.IOThreadsPolicySupplementalPool && pool != nil &&
		pool.SupplementalPoolThreadCount != nil {
		extra += int(min(*pool.SupplementalPoolThreadCount, assumedCPUs))
	}
	return extra
}

// assumedNIC is user-mode networking for masquerade, and a tap with networkInterfaceMultiqueue: user-mode networking has one queue.
func assumedNIC(nic v1.Interface, devices v1.Devices) NIC {
	queues := devices.NetworkInterfaceMultiQueue != nil && *devices.NetworkInterfaceMultiQueue
	switch {
	case nic.Masquerade == nil:
		return NIC{Kind: "bridge", Device: "br0"}
	case queues:
		return NIC{Kind: "tap", Device: "tap-" + nic.Name}
	}
	return NIC{Kind: "user"}
}

func assumedVolume(dir string, volume v1.Volume) Volume {
	if volume.HostDisk != nil {
		return Volume{Path: volume.HostDisk.Path, Format: "raw"}
	}
	if volume.ContainerDisk != nil || volume.Ephemeral != nil {
		return Volume{Path: path.Join(dir, volume.Name+".qcow2"), Format: "qcow2", Backing: path.Join(dir, volume.Name+".base"), BackingFormat: "raw"}
	}
	if volume.EmptyDisk != nil {
		return Volume{Path: path.Join(dir, volume.Name+".qcow2"), Format: "qcow2"}
	}
	return Volume{Path: path.Join(dir, volume.Name+".img"), Format: "raw"}
}

// assumedHostDevices gives PCI addresses behind one bridge next to NUMA node 0, in the order of the spec.
func assumedHostDevices(vmi *v1.VirtualMachineInstance) map[string]HostDev {
	var names []string
	for _, nic := range vmi.Spec.Domain.Devices.Interfaces {
		if nic.SRIOV != nil {
			names = append(names, nic.Name)
		}
	}
	for _, device := range vmi.Spec.Domain.Devices.HostDevices {
		names = append(names, device.Name)
	}
	for _, gpu := range vmi.Spec.Domain.Devices.GPUs {
		names = append(names, gpu.Name)
	}
	bound := map[string]HostDev{}
	for i, name := range names {
		bound[name] = HostDev{Type: "pci", Address: assumedPCI(i), NUMANode: new(int)}
	}
	return bound
}
