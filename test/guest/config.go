package guest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Offsets in a PCI function's configuration space, and identifiers of capabilities (PCI Local Bus Specification 3.0, 6.1 and
// appendix H; PCI Express Base Specification, 7.5.3).
const (
	capabilityPointer = 0x34
	interruptPin      = 0x3d
	express           = 0x10
	msix              = 0x11
)

// configFacts are the facts of a configuration space that the device itself decides: the interrupt pin, the list of capabilities,
// the number of MSI-X vectors and, of a port, its number and slot. A text that is no configuration space has none.
func configFacts(text string) map[string]string {
	space, err := hex.DecodeString(text)
	if err != nil || len(space) < 256 {
		return nil
	}
	space = append(space, make([]byte, 0x20)...) // a capability at the end may be cut off
	facts := map[string]string{"interrupt": strconv.Itoa(int(space[interruptPin]))}
	var list []string
	// A list of more than 48 entries, which is all that fit, goes in a circle.
	for at, n := int(space[capabilityPointer]&^3), 0; at >= 0x40 && n < 48; at, n = int(space[at+1]&^3), n+1 {
		list = append(list, fmt.Sprintf("%02x", space[at]))
		switch space[at] {
		case msix:
			facts["vectors"] = strconv.Itoa((int(space[at+2])|int(space[at+3])<<8)&0x7ff + 1)
		case express:
			if hasSlot := space[at+3]&1 == 1; !hasSlot {
				continue
			}
			facts["port"] = strconv.Itoa(int(space[at+0x0f]))
			facts["slot"] = hex.EncodeToString(space[at+0x14 : at+0x18]) // capabilities: buttons, lamps, power, number
			facts["hotplug"] = map[bool]string{true: "on", false: "off"}[space[at+0x14]&0x40 != 0]
		}
	}
	if len(list) > 0 {
		facts["capabilities"] = strings.Join(list, ",")
	}
	return facts
}

// barSizes reads start, end and flags of each resource as the kernel lists them: six registers and the ROM. The windows of a bridge follow. They are left
// out, because their sizes follow from the devices behind the bridge.
func barSizes(text string) string {
	words := strings.Fields(text)
	var out []string
	for i := 0; i+2 < len(words) && i < 3*7; i += 3 {
		start, err1 := strconv.ParseUint(words[i], 0, 64)
		end, err2 := strconv.ParseUint(words[i+1], 0, 64)
		flags, err3 := strconv.ParseUint(words[i+2], 0, 64)
		if err1 != nil || err2 != nil || err3 != nil || flags == 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%d:%#x%s", i/3, end-start+1, barKind(flags)))
	}
	return strings.Join(out, ",")
}

// barKind spells the flags of ioport.h that the device decides.
func barKind(flags uint64) string {
	kind := "m"
	if flags&0x100 != 0 {
		kind = "io"
	}
	if flags&0x2000 != 0 {
		kind += "p" // may be prefetched
	}
	if flags&0x100000 != 0 {
		kind += "64"
	}
	return kind
}
