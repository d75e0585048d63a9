package abi

// conventional has the models of QEMU that are conventional PCI devices, without a PCI Express link. They go on the root bus; others go behind
// root ports.
var conventional = map[string]bool{
	"e1000": true, "rtl8139": true, "pcnet": true, "ne2k_pci": true, "i6300esb": true, "ac97": true, "ich9": true, "pvpanic": true,
	"vga": true, "bochs": true, "cirrus": true,
}

// Conventional reports whether a model of QEMU is a conventional PCI device, which cannot be behind a root port.
func Conventional(model string) bool { return conventional[model] }
