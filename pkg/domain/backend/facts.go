package backend

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/utils/cpuset"
)

// Types that an administrator writes too, in documents of kind HostCapabilities and HostClaim.
type (
	// Capabilities are facts of a host that rarely change. The launcher reads them from libvirt's capabilities and domain capabilities; offline
	// rendering reads them from a HostCapabilities.
	Capabilities = v1alpha1.HostCapabilitiesSpec
	// Account is a user of a host and its group.
	Account = v1alpha1.HostAccount
	// Firmware is one firmware build of a host.
	Firmware = v1alpha1.HostFirmware
	// NUMANode is a NUMA node of a host.
	NUMANode = v1alpha1.HostNUMANode
	// CPU is one logical CPU of a host.
	CPU = v1alpha1.HostCPU
	// HostAdapter is a virtual Fibre Channel adapter (NPIV).
	HostAdapter = v1alpha1.HostAdapter
	// NetworkDisk is a disk that QEMU reaches itself.
	NetworkDisk = v1alpha1.NetworkDisk
	// NetworkHost is a server of a NetworkDisk.
	NetworkHost = v1alpha1.NetworkHost
)

// NUMANodes returns the host's NUMA nodes that have CPUs of the bindings, with only those CPUs. It returns nil without dedicated CPUs.
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

// Bindings are the host resources of one start. Keys of the maps are names in the spec: of volumes, interfaces, host devices and GPUs, file systems. Bindings
// contain no secrets: the launcher gives the values of secrets only to libvirt.
type Bindings struct {
	Volumes  map[string]Volume  `json:"volumes,omitempty"`
	NICs     map[string]NIC     `json:"nics,omitempty"`
	HostDevs map[string]HostDev `json:"hostDevs,omitempty"`
	// Filesystems are virtiofsd sockets.
	Filesystems map[string]string `json:"filesystems,omitempty"`
	// NVRAM is the file of the firmware's variables in format raw, TPMState the directory of the TPM's state. Both belong to this VMI and outlive it.
	NVRAM    string `json:"nvram,omitempty"`
	TPMState string `json:"tpmState,omitempty"`
	// NVRAMFormat is the format of the existing file of variables, raw or qcow2, by its name (NVRAMIn). Empty if there is no file.
	NVRAMFormat string `json:"nvramFormat,omitempty"`
	// Kernel and Initrd are paths of kernelBoot.
	Kernel string `json:"kernel,omitempty"`
	Initrd string `json:"initrd,omitempty"`
	// VNC and Serial are sockets, SerialLog is a file. Channels has the socket of each channel by its alias.
	VNC       string            `json:"vnc,omitempty"`
	Serial    string            `json:"serial,omitempty"`
	SerialLog string            `json:"serialLog,omitempty"`
	Channels  map[string]string `json:"channels,omitempty"`
	// CPUs are the dedicated CPUs, in the host's numbering: those that the node assigned to the VMI, or all that are free.
	CPUs []int `json:"cpus,omitempty"`
	// NoMemoryBinding is true if QEMU may not bind memory to NUMA nodes of the host, as in a pod, whose seccomp profile forbids mbind(2).
	NoMemoryBinding bool `json:"noMemoryBinding,omitempty"`
	// TPMEncrypted is true when the state of the TPM is encrypted; the host has the passphrase.
	TPMEncrypted bool `json:"tpmEncrypted,omitempty"`
	// ACPITables maps slic and msdm to paths of files.
	ACPITables map[string]string `json:"acpiTables,omitempty"`
	// FirmwareFiles maps names in QEMU's fw_cfg to paths of files, such as Ignition's.
	FirmwareFiles map[string]string `json:"firmwareFiles,omitempty"`
}

// Volume is the host side of a volume: where its data is, and the facts that KubeVirt's converter reads from the host (format, block device, O_DIRECT, block
// sizes).
type Volume struct {
	Path string `json:"path"`
	// Format is raw or qcow2.
	Format string `json:"format"`
	// Network is set for a disk that QEMU reaches over the network. Path is empty then.
	Network *NetworkDisk `json:"network,omitempty"`
	// Encrypted is true for a LUKS volume; the host has the passphrase under the volume's name.
	Encrypted bool `json:"encrypted,omitempty"`
	// Block is true for a block device.
	Block bool `json:"block,omitempty"`
	// Adapter is the virtual Fibre Channel adapter that is made for this start, if the volume is a LUN behind it.
	Adapter *HostAdapter `json:"adapter,omitempty"`
	// Backing is a read-only image below a qcow2 overlay.
	Backing       string `json:"backing,omitempty"`
	BackingFormat string `json:"backingFormat,omitempty"`
	// BackingBlock is true if that image is a block device.
	BackingBlock bool `json:"backingBlock,omitempty"`
	// NoDirectIO is true if the storage of the volume, or of its backing image, refuses O_DIRECT.
	NoDirectIO bool `json:"noDirectIO,omitempty"`
	// LogicalBlock, PhysicalBlock and DiscardGranularity are in bytes, for disks with blockSize.matchVolume; 0 is unknown.
	LogicalBlock       uint `json:"logicalBlockBytes,omitempty"`
	PhysicalBlock      uint `json:"physicalBlockBytes,omitempty"`
	DiscardGranularity uint `json:"discardGranularityBytes,omitempty"`
}

// NIC is the host side of an interface.
type NIC struct {
	// Kind is user (QEMU's own NAT), passt, tap, bridge, ethernet, direct (macvtap) or vhostuser. vDPA is not among them: libvirt has it only for one model
	// of interfaces, which new guests do not have.
	Kind string `json:"kind"`
	// Device is the tap, the bridge, or the link below a macvtap.
	Device string `json:"device,omitempty"`
	// MTU is the MTU of Device in bytes, 0 if it is unknown.
	MTU uint `json:"mtu,omitempty"`
	// Guarded asks for a packet filter: the guest may send from its own MAC address only, and from Addresses only if there are any (IPv4).
	Guarded   bool     `json:"guarded,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Socket is the path of the socket of vhostuser. QEMU connects to it as the client.
	Socket string `json:"socket,omitempty"`
	// LastPort is the highest port that passt forwards for an interface that lists none; 0 means each port.
	LastPort uint `json:"lastPort,omitempty"`
}

// HostDev is the host side of a host device or GPU. KubeVirt's device plugins pass it in the environment of the pod; a DRA driver passes it in
// metadata files.
type HostDev struct {
	// Type is pci, mdev or usb; for s390x ap (a crypto matrix) and ccw (a channel device), both mediated, too.
	Type string `json:"type"`
	// Parent and MediatedType describe a mediated device that is made for this start and removed after it: libvirt's node device of the card, and the type of the
	// new device. They are empty for a device that exists already.
	Parent       string `json:"parent,omitempty"`
	MediatedType string `json:"mediatedType,omitempty"`
	// Address is the PCI address with its PCI domain, the UUID of the mediated device, or bus.device.
	Address string `json:"address"`
	// Bundle are the further USB devices, as bus.device, of a host device that consists of several, in the order of the device plugin.
	Bundle []string `json:"bundle,omitempty"`
	// NUMANode is the NUMA node of the host that the device is on, as in sysfs; nil is unknown.
	NUMANode *int `json:"numaNode,omitempty"`
}
