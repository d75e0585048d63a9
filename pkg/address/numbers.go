package address

// Numbers gives each key a number of its own, not below first: the one in frozen, else the lowest one free. Numbers frozen
// for keys that are gone are free again. Of two keys frozen with one number the earlier keeps it.
//
// Every address that is a position on a bus comes from here: SATA and SCSI units, USB ports, virtio-serial ports, channel
// device numbers and disk names. The caller turns the number into controller and unit.
func Numbers(keys []string, frozen map[string]uint, first uint) map[string]uint {
	if len(keys) == 0 {
		return nil // as for most buses of most guests
	}
	numbers := make(map[string]uint, len(keys))
	taken := make(map[uint]bool, len(keys))
	for _, key := range keys {
		if n, ok := frozen[key]; ok && n >= first && !taken[n] {
			numbers[key], taken[n] = n, true
		}
	}
	next := first
	for _, key := range keys {
		if _, ok := numbers[key]; ok {
			continue
		}
		for taken[next] {
			next++
		}
		numbers[key], taken[next] = next, true
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
