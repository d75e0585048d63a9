// Package address is the format of guest addresses as texts, and Kiln's own allocator of them: PCI Express behind root ports, and everything that is a number
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
	a := PCI{Bus: hex(parts[2]), Slot: hex(parts[3]), Function: hex(parts[4])}
	if a.Slot > 31 {
		return PCI{}, fmt.Errorf("the slot must be from '00' to '1f'")
	}
	return a, nil
}

// hex is only given what pciForm matched.
func hex(digits string) uint {
	n, _ := strconv.ParseUint(digits, 16, 32)
	return uint(n)
}

// String is the form that ParsePCI reads.
func (a PCI) String() string {
	switch {
	case a.Bus < uint(len(portTexts)) && a.Slot == 0 && a.Function == 0:
		return portTexts[a.Bus]
	case a.Bus == 0 && a.Slot < slots && a.Function < functions:
		return rootTexts[a.Slot*functions+a.Function]
	}
	return a.format()
}

func (a PCI) format() string { return fmt.Sprintf("0000:%02x:%02x.%x", a.Bus, a.Slot, a.Function) }

// portTexts and rootTexts are the texts of the addresses that nearly all devices have, behind a root port and on the root bus. Formatting would take an
// allocation for each device of each domain.
var (
	portTexts = func() (texts [256]string) {
		for bus := range texts {
			texts[bus] = PCI{Bus: uint(bus)}.format()
		}
		return texts
	}()
	rootTexts = func() (texts [slots * functions]string) {
		for i := range texts {
			texts[i] = PCI{Slot: uint(i / functions), Function: uint(i % functions)}.format()
		}
		return texts
	}()
)
