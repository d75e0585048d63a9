package abi

import "github.com/kilnvm/kiln/pkg/hardware"

// Conventional reports whether a model of QEMU is a conventional PCI device, without a PCI Express link. Such a device goes on the root bus; others go
// behind root ports.
func Conventional(model string) bool {
	switch model {
	case "i6300esb", "ac97", "ich9", "pvpanic", "vga", "bochs", "cirrus":
		return true
	}
	return hardware.Model(model).Conventional
}
