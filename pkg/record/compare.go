package record

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Compare returns the differences between the hardware that one guest found at two boots. Without differences the guest may still have found other hardware: a
// record has only what must return, and its digest covers the rest.
func Compare(before, after Record) (changes []Change) {
	for _, key := range slices.Sorted(maps.Keys(before.Devices)) {
		old := before.Devices[key]
		now, still := after.Devices[key]
		old.Index, now.Index = nil, nil
		// The NUMA node of an expander bus follows from the NUMA nodes of the VMI.
		old.Expander, _, _ = strings.Cut(old.Expander, ":")
		now.Expander, _, _ = strings.Cut(now.Expander, ":")
		switch none := (Address{}); {
		case still && old == none && now != none: // such as a USB controller of model 'none'
			changes = append(changes, Change{Device: key, Text: deviceText(key) + " is added", Verdict: NeedsRestart})
		case !still || old != none && now == none:
			changes = append(changes, Change{Device: key, Text: deviceText(key) + " is removed", Verdict: NeedsRestart})
		case old != now:
			changes = append(changes, Change{Device: key, Text: fmt.Sprintf("%s moves from %s to %s", deviceText(key), old, now), Verdict: Breaks})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after.Devices)) {
		if _, before := before.Devices[key]; !before {
			changes = append(changes, Change{Device: key, Text: deviceText(key) + " is added", Verdict: NeedsRestart})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.MACs)) {
		if now, still := after.MACs[name]; still && now != before.MACs[name] {
			key := Key("interface", name)
			text := fmt.Sprintf("%s changes its MAC from '%s' to '%s'", deviceText(key), before.MACs[name], now)
			changes = append(changes, Change{Device: key, Text: text, Verdict: Breaks})
		}
	}
	if before.BootDisk == "" || after.BootDisk == "" { // old records do not have it
		before.BootDisk, after.BootDisk = "", ""
	}
	if before.Firmware == "" || after.Firmware == "" {
		before.Firmware, after.Firmware = "", ""
	}
	changes = append(changes, compareCPUs(before.CPU, after.CPU)...)
	for _, fact := range comparedParts {
		old, now := fact.of(before), fact.of(after)
		if !reflect.DeepEqual(old, now) {
			changes = append(changes, Change{Part: fact.part, Text: fmt.Sprintf("%s from '%v' to '%v'", fact.part.Changes(), old, now), Verdict: fact.part.Verdict()})
		}
	}
	return changes
}

// deviceText returns the device of a key in words, such as "disk 'root'".
func deviceText(key string) string {
	kind, name := SplitKey(key)
	return fmt.Sprintf("%s '%s'", kind, name)
}

// systemStrings returns the strings of the DMI table. The names of the strings of the BIOS begin with "bios".
func systemStrings(r Record) map[string]string {
	if len(r.BIOS) == 0 {
		return r.SMBIOS
	}
	all := make(map[string]string, len(r.SMBIOS)+len(r.BIOS))
	maps.Copy(all, r.SMBIOS)
	for name, text := range r.BIOS {
		all["bios "+name] = text
	}
	return all
}

// comparedParts are the parts of a record beside its devices.
var comparedParts = []struct {
	part Part
	of   func(Record) any
}{
	{PartUUID, func(r Record) any { return r.UUID }},
	{PartGenerationID, func(r Record) any { return map[bool]string{false: "none", true: "given"}[r.GenerationID] }},
	{PartSerial, func(r Record) any { return r.Serial }},
	{PartMachine, func(r Record) any { return r.Machine }},
	{PartBoot, func(r Record) any { return r.BootDisk }},
	{PartFirmware, func(r Record) any { return r.Firmware }},
	{PartSMBIOS, func(r Record) any { return systemStrings(r) }},
	{PartVideo, func(r Record) any { return r.Video }},
	{PartVSOCK, func(r Record) any { return r.VSOCK }},
	{PartTSC, func(r Record) any { return r.TSC }},
	{PartNUMA, func(r Record) any { return r.NUMA }},
}
