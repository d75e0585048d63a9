// Package libnbd stands in for libguestfs.org/libnbd, whose server no mirror of Go modules has a copy of. virt-launcher reads changed blocks of disks with it
// while a backup or an export of a running guest goes on (package nbdclient of KubeVirt). Here each of these calls fails, and the backup with it. Nothing else
// of virt-launcher calls the package.
package libnbd

import "errors"

// Names and flags of libnbd's API.
const (
	CONTEXT_BASE_ALLOCATION   = "base:allocation"
	CONTEXT_QEMU_DIRTY_BITMAP = "qemu:dirty-bitmap:"
	STATE_HOLE                = 1
	STATE_ZERO                = 2
	STATE_DIRTY               = 1
)

var errAbsent = errors.New("this virt-launcher is built without libnbd")

// Libnbd is a connection, which nobody gets.
type Libnbd struct{}

// LibnbdExtent is a range of blocks.
type LibnbdExtent struct{ Length, Flags uint64 }

// ExtentCallback is called with ranges of blocks.
type ExtentCallback func(metacontext string, offset uint64, entries []LibnbdExtent, nbdErr *int) int

// BlockStatus64Optargs are options of BlockStatus64.
type BlockStatus64Optargs struct{}

// PreadOptargs are options of Pread.
type PreadOptargs struct{}

// Create fails.
func Create() (*Libnbd, error) { return nil, errAbsent }

// Close does nothing.
func (*Libnbd) Close() error { return nil }

// AddMetaContext fails.
func (*Libnbd) AddMetaContext(string) error { return errAbsent }

// CanMetaContext fails.
func (*Libnbd) CanMetaContext(string) (bool, error) { return false, errAbsent }

// GetSize fails.
func (*Libnbd) GetSize() (uint64, error) { return 0, errAbsent }

// SetExportName fails.
func (*Libnbd) SetExportName(string) error { return errAbsent }

// ConnectUnix fails.
func (*Libnbd) ConnectUnix(string) error { return errAbsent }

// Pread fails.
func (*Libnbd) Pread([]byte, uint64, *PreadOptargs) error { return errAbsent }

// BlockStatus64 fails.
func (*Libnbd) BlockStatus64(uint64, uint64, ExtentCallback, *BlockStatus64Optargs) error {
	return errAbsent
}
