package record

import (
	"strconv"
	"strings"
)

// Keys of devices: 'disk.root' is the disk 'root', and 'controller.pci.3' the PCI controller with index 3. Their form never changes, because stored records
// have them.

// Key returns the key of a device in Record.Devices. kind is a word such as 'disk', and name is unique within the kind.
func Key(kind, name string) string { return kind + "." + name }

// WriteKey appends the key of a device to a text, without the allocations of Key.
func WriteKey(to *strings.Builder, kind, name string) {
	to.WriteString(kind)
	to.WriteByte('.')
	to.WriteString(name)
}

// SplitKey returns the kind and the name of a key. A name may have dots, a kind has none.
func SplitKey(key string) (kind, name string) {
	kind, name, _ = strings.Cut(key, ".")
	return kind, name
}

// controller is the kind of controllers. Libvirt tells them apart by type and index, which together are the name.
const controller = "controller"

// ControllerKey returns the key of a controller of a libvirt type, such as 'pci' or 'usb'.
func ControllerKey(kind string, index uint) string {
	switch {
	case kind == "pci" && index < uint(len(pciControllers)):
		return pciControllers[index]
	case index == 0 && firstControllers[kind] != "":
		return firstControllers[kind]
	}
	return controller + "." + kind + "." + strconv.FormatUint(uint64(index), 10) // Key of Key, which would take two allocations for each of dozens
}

// firstControllers are the keys of the first controllers, of which most guests have only one.
var firstControllers = map[string]string{
	"sata": controller + ".sata.0", "scsi": controller + ".scsi.0", "usb": controller + ".usb.0", "virtio-serial": controller + ".virtio-serial.0",
}

// pciControllers are the keys of PCI controllers, of which each guest has dozens.
var pciControllers = func() (keys [256]string) {
	for i := range keys {
		keys[i] = controller + ".pci." + strconv.Itoa(i)
	}
	return keys
}()

// Port returns the index of the PCI controller with a key, which is also the number of its bus. ok is false for index 0, which is the root bus and has no
// address, for other devices, and for keys that ControllerKey never returns, such as 'controller.pci.03': two keys of a hostile record never mean one
// controller.
func Port(key string) (index uint, ok bool) {
	kind, name := SplitKey(key)
	bus, digits := SplitKey(name)
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 || kind != controller || bus != "pci" || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return uint(n), true
}
