// Package record judges and compares hardware records: what a guest finds again at later boots. It reads stored records as hostile input. It knows
// no libvirt XML: pkg/domain/abi makes records of domains.
package record

import "github.com/kilnvm/kiln/api/v1alpha1"

// The types of a record are those of the API.
type (
	Record    = v1alpha1.HardwareRecord
	Address   = v1alpha1.GuestAddress
	BlockSize = v1alpha1.GuestBlockSize
	Cell      = v1alpha1.GuestNUMANode
)
