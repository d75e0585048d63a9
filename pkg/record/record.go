// Package record judges and compares hardware records: what a guest finds again at later boots. It reads stored records as hostile input. It knows
// no libvirt XML: pkg/domain/abi makes records of domains.
package record

import "github.com/kilnvm/kiln/api/v1alpha1"

// Types of a record are those of the API.
type (
	// Record is what a guest finds again.
	Record = v1alpha1.HardwareRecord
	// Address is where a device of it is.
	Address = v1alpha1.GuestAddress
	// BlockSize is that of a disk.
	BlockSize = v1alpha1.GuestBlockSize
	// NUMANode is a NUMA node of the guest.
	NUMANode = v1alpha1.GuestNUMANode
)
