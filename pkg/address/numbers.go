package address

import "slices"

// Unrecorded stands for the number of a device that an earlier boot has not numbered.
const Unrecorded = ^uint(0)

// Numbers gives each device a number of its own, not below first: the recorded one of an earlier boot, else the lowest one free. Numbers
// of devices that are gone are free again. Of two devices recorded with one number the earlier keeps it.
//
// Every address that is a position on a bus comes from here: SATA and SCSI units, USB ports, virtio-serial ports, channel
// device numbers and disk names. The caller turns the number into controller and unit.
func Numbers(recorded []uint, first uint) []uint {
	numbers := slices.Clone(recorded)
	var taken map[uint]bool // none at the first boot
	for i, n := range recorded {
		switch {
		case n == Unrecorded:
		case n < first || taken[n]:
			numbers[i] = Unrecorded
		case taken == nil:
			taken = map[uint]bool{n: true}
		default:
			taken[n] = true
		}
	}
	next := first
	for i, n := range numbers {
		if n != Unrecorded {
			continue
		}
		for taken[next] {
			next++
		}
		numbers[i] = next
		next++
	}
	return numbers
}

// Letters is how Linux and libvirt count disks: 0 is a, 25 is z, 26 is aa.
func Letters(n uint) string {
	if n < 26 {
		return string(rune('a' + n))
	}
	return Letters(n/26-1) + Letters(n%26)
}

// FromLetters is the inverse of Letters; false when the text is not of lower case letters.
func FromLetters(text string) (uint, bool) {
	n := uint(0)
	for _, r := range text {
		if r < 'a' || r > 'z' {
			return 0, false
		}
		n = n*26 + uint(r-'a') + 1
	}
	return n - 1, n > 0
}
