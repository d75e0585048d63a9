// Package record judges and compares hardware records, and asks for recorded CPUs in VMIs. A record has the hardware that a guest must find again at later
// boots. Stored records are hostile input. The package does not read libvirt XML: pkg/domain/abi makes records of domains.
package record

import "github.com/kilnvm/kiln/api/v1alpha1"

// The API has the types of records.
type (
	// Record is the hardware that a guest must find again.
	Record = v1alpha1.HardwareRecord
	// Address is the address of a device.
	Address = v1alpha1.GuestAddress
	// BlockSize has the sizes of a disk's blocks.
	BlockSize = v1alpha1.GuestBlockSize
	// CPU is the CPU of the guest.
	CPU = v1alpha1.GuestCPU
	// Topology is the topology of a CPU.
	Topology = v1alpha1.GuestCPUTopology
	// NUMANode is a NUMA node of the guest.
	NUMANode = v1alpha1.GuestNUMANode
)
