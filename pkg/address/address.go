// Package address is the format of addresses as texts, and Kiln's own allocator of them: PCI Express behind root ports, and everything that is a number
// on a bus (drives, USB ports, virtio-serial ports, channel devices, disk names). What the user wrote is honoured first, what
// an earlier boot recorded next; new devices take free places, and the places of removed devices stay free. The same
// input gives the same addresses, in time linear in the number of devices.
package address

import (
	"fmt"
	"regexp"
	"strconv"
)

// PCI is a guest PCI address in PCI domain 0, the only one that QEMU's machines have.
type PCI struct{ Bus, Slot, Function uint }

// pciForm is the form that the API documents, 0000:81:01.0; the domain may be left out as lspci does.
var pciForm = regexp.MustCompile(`^(?:([0-9a-fA-F]{4}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$`)

// ParsePCI reads domain:bus:slot.function, all but the function in hexadecimal.
func ParsePCI(text string) (PCI, error) {
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		return PCI{}, fmt.Errorf("must be a PCI address such as '0000:01:00.0'")
	}
	if parts[1] != "" && parts[1] != "0000" {
		return PCI{}, fmt.Errorf("the PCI domain must be '0000'")
	}
	a := PCI{Bus: parseHex(parts[2]), Slot: parseHex(parts[3]), Function: parseHex(parts[4])}
	if a.Slot > 31 {
		return PCI{}, fmt.Errorf("the slot must be from '00' to '1f'")
	}
	return a, nil
}

// HostPCI is a PCI address of a host. A host may have many PCI domains: the kernel numbers the domains of the firmware from 0000, and the domains behind
// controllers such as Intel's VMD from 10000.
type HostPCI struct {
	Domain uint
	PCI
}

// hostForm is the kernel's form, with at least four digits of the domain. The domain 0000 may be left out as lspci does.
var hostForm = regexp.MustCompile(`^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$`)

// ParseHostPCI reads the address of a device of a host, as sysfs names it.
func ParseHostPCI(text string) (HostPCI, error) {
	parts := hostForm.FindStringSubmatch(text)
	if parts == nil {
		return HostPCI{}, fmt.Errorf("must be a PCI address of a host such as '0000:01:00.0' or '10000:e1:00.0'")
	}
	a := HostPCI{Domain: parseHex(parts[1]), PCI: PCI{Bus: parseHex(parts[2]), Slot: parseHex(parts[3]), Function: parseHex(parts[4])}}
	if a.Slot > 31 {
		return HostPCI{}, fmt.Errorf("the slot must be from '00' to '1f'")
	}
	return a, nil
}

// String is the name of the device in sysfs.
func (a HostPCI) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Function)
}

// parseHex reads digits that pciForm or hostForm has matched. It returns 0 for no digits.
func parseHex(digits string) uint {
	n, _ := strconv.ParseUint(digits, 16, 32)
	return uint(n)
}

// String returns the form that ParsePCI reads.
func (a PCI) String() string {
	switch {
	case a.Bus < uint(len(portTexts)) && a.Slot == 0 && a.Function == 0:
		return portTexts[a.Bus]
	case a.Bus == 0 && a.Slot < slots && a.Function < functions:
		return rootTexts[a.Slot*functions+a.Function]
	}
	return a.formatPCI()
}

func (a PCI) formatPCI() string { return fmt.Sprintf("0000:%02x:%02x.%x", a.Bus, a.Slot, a.Function) }

// portTexts and rootTexts are the texts of the addresses that nearly all devices have, behind a root port and on the root bus. Formatting would take an
// allocation for each device of each domain.
var (
	portTexts = func() (texts [256]string) {
		for bus := range texts {
			texts[bus] = PCI{Bus: uint(bus)}.formatPCI()
		}
		return texts
	}()
	rootTexts = func() (texts [slots * functions]string) {
		for i := range texts {
			texts[i] = PCI{Slot: uint(i / functions), Function: uint(i % functions)}.formatPCI()
		}
		return texts
	}()
)
