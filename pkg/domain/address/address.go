// Package address is Kiln's own allocator of guest addresses: PCI, drive, USB, virtio-serial, CCW. Explicit addresses are
// honoured first, frozen ones next, new devices take free places, holes stay.
package address
