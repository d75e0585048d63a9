package backend

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/utils/cpuset"
)

// Capabilities are facts of a host that rarely change. YAML and JSON.
type Capabilities struct {
	NodeName string `json:"nodeName,omitempty"`
	// Labels of the host, by which profiles select it.
	Labels map[string]string `json:"labels,omitempty"`
	// Architecture of the host: amd64, arm64, s390x.
	Architecture string `json:"architecture"`
	// VirtTypes in order of preference: kvm, qemu.
	VirtTypes []string `json:"virtTypes"`
	// Emulators is the QEMU binary per guest architecture.
	Emulators map[string]string `json:"emulators"`
	// Machines resolves machine type aliases per guest architecture: q35 -> pc-q35-7.2.
	Machines       map[string]map[string]string `json:"machines,omitempty"`
	Firmware       []Firmware                   `json:"firmware,omitempty"`
	LibvirtVersion string                       `json:"libvirtVersion,omitempty"`
	QEMUVersion    string                       `json:"qemuVersion,omitempty"`
	// NUMA nodes with their CPUs, for pinning.
	NUMA []NUMANode `json:"numa,omitempty"`
	// QEMU is the user that libvirt runs QEMU as; nil is unknown.
	QEMU *Account `json:"qemu,omitempty"`
}

// Account is a user of a host and its group, by number.
type Account struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Firmware is one firmware build of a host, as in its QEMU firmware descriptor.
type Firmware struct {
	Architecture string `json:"architecture"`
	// Machines are glob patterns.
	Machines []string `json:"machines,omitempty"`
	// Features as in QEMU's descriptors: secure-boot, enrolled-keys, requires-smm, amd-sev ...
	Features     []string `json:"features,omitempty"`
	Code         string   `json:"code"`
	VarsTemplate string   `json:"varsTemplate,omitempty"`
	// Format of code and vars: raw or qcow2.
	Format string `json:"format,omitempty"`
}

// NUMANode is a NUMA node of a host.
type NUMANode struct {
	ID        int    `json:"id"`
	MemoryKiB uint64 `json:"memoryKiB"`
	CPUs      []CPU  `json:"cpus"`
	// Pages is the number of huge pages by their size in KiB; unknown if empty.
	Pages map[uint64]uint64 `json:"pages,omitempty"`
	// Distances to other NUMA nodes by their ID, as ACPI counts them; unknown if empty.
	Distances map[int]uint `json:"distances,omitempty"`
}

// NUMANodes are the host's NUMA nodes that have CPUs for this guest, each with those alone.
func NUMANodes(host Capabilities, bindings Bindings) []NUMANode {
	if len(bindings.CPUs) == 0 {
		return nil
	}
	var nodes []NUMANode
	free := cpuset.New(bindings.CPUs...)
	for _, node := range host.NUMA {
		node.CPUs = slices.DeleteFunc(slices.Clone(node.CPUs), func(c CPU) bool { return !free.Contains(c.ID) })
		if len(node.CPUs) > 0 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// CPU is one logical CPU of a host.
type CPU struct {
	ID     int `json:"id"`
	Socket int `json:"socket"`
	Die    int `json:"die,omitempty"`
	// Core is unique within the die only.
	Core int `json:"core"`
}

// Bindings are the host resources of one start, by device name (the name in the spec).
type Bindings struct {
	Volumes  map[string]Volume  `json:"volumes,omitempty"`
	NICs     map[string]NIC     `json:"nics,omitempty"`
	HostDevs map[string]HostDev `json:"hostDevs,omitempty"`
	// Filesystems are virtiofsd sockets.
	Filesystems map[string]string `json:"filesystems,omitempty"`
	// NVRAM and TPMState are paths of this guest's own state: a file, and a folder.
	NVRAM    string `json:"nvram,omitempty"`
	TPMState string `json:"tpmState,omitempty"`
	// Kernel and Initrd are paths of kernelBoot.
	Kernel string `json:"kernel,omitempty"`
	Initrd string `json:"initrd,omitempty"`
	// Sockets and files of character devices and graphics.
	VNC       string            `json:"vnc,omitempty"`
	Serial    string            `json:"serial,omitempty"`
	SerialLog string            `json:"serialLog,omitempty"`
	Channels  map[string]string `json:"channels,omitempty"`
	// CPUs that this guest may have for its own, in host numbering: what a node has given it, or all that are free.
	CPUs []int `json:"cpus,omitempty"`
	// TPMEncrypted is true when the state of the TPM is encrypted; the host has the passphrase.
	TPMEncrypted bool `json:"tpmEncrypted,omitempty"`
	// ACPITables maps slic and msdm to files.
	ACPITables map[string]string `json:"acpiTables,omitempty"`
	// FirmwareFiles maps names in QEMU's fw_cfg to files, such as that of Ignition.
	FirmwareFiles map[string]string `json:"firmwareFiles,omitempty"`
}

// Volume is the host side of a volume.
type Volume struct {
	Path string `json:"path"`
	// Format is raw or qcow2.
	Format string `json:"format"`
	// Network is set for a disk of the network, which has no path.
	Network *NetworkDisk `json:"network,omitempty"`
	// Encrypted is true for a LUKS volume; the host has the passphrase under the volume's name.
	Encrypted bool `json:"encrypted,omitempty"`
	// Block is true for a block device.
	Block bool `json:"block,omitempty"`
	// Adapter is made for this start: the volume is a LUN that is reached through it. Nil where the host reaches it anyway.
	Adapter *HostAdapter `json:"adapter,omitempty"`
	// Backing is a read-only image below a qcow2 overlay.
	Backing       string `json:"backing,omitempty"`
	BackingFormat string `json:"backingFormat,omitempty"`
	// NoDirectIO is true when the file system refuses O_DIRECT.
	NoDirectIO bool `json:"noDirectIO,omitempty"`
	// Sizes of blocks in bytes, for disks that match their volume; 0 is unknown.
	LogicalBlock       uint `json:"logicalBlockBytes,omitempty"`
	PhysicalBlock      uint `json:"physicalBlockBytes,omitempty"`
	DiscardGranularity uint `json:"discardGranularityBytes,omitempty"`
}

// Types that an administrator writes too, in a HostClaim.
type (
	// HostAdapter is a virtual Fibre Channel adapter (NPIV).
	HostAdapter = v1alpha1.HostAdapter
	// NetworkDisk is a disk that QEMU reaches itself.
	NetworkDisk = v1alpha1.NetworkDisk
	// NetworkHost is a server of a NetworkDisk.
	NetworkHost = v1alpha1.NetworkHost
)

// NIC is the host side of an interface.
type NIC struct {
	// Kind is user (QEMU's own NAT), passt, tap, bridge, ethernet, direct (macvtap) or vhostuser. vDPA is not among them: libvirt has it
	// for one model of interface alone, which is not what new guests have.
	Kind string `json:"kind"`
	// Device is the tap, the bridge, or the link below a macvtap.
	Device string `json:"device,omitempty"`
	// Guarded keeps the guest from sending under another MAC address than its own, and where Addresses are given under other IPv4
	// addresses than these. It is a filter of the tap.
	Guarded   bool     `json:"guarded,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Socket is that of vhostuser; QEMU connects to it.
	Socket string `json:"socket,omitempty"`
}

// HostDev is a host device given to a guest.
type HostDev struct {
	// Type is pci, mdev or usb; for s390x ap (a crypto matrix) and ccw (a channel device), both mediated, too.
	Type string `json:"type"`
	// Parent and MediatedType make a mediated device for this start, which ends with the guest: the name of the node device of the
	// card, and what it is to be. Empty where the device is there already.
	Parent       string `json:"parent,omitempty"`
	MediatedType string `json:"mediatedType,omitempty"`
	// Address is the PCI address, the UUID of the mediated device, or bus.device.
	Address string `json:"address"`
	// NUMANode is the NUMA node of the host that the device is next to; nil is unknown.
	NUMANode *int `json:"numaNode,omitempty"`
}
