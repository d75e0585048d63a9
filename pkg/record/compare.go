package record

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Compare names what two records of one guest tell of its hardware at two boots. Empty does not mean that the guest saw the
// same: a record holds what must return, and the digests tell of all else.
func Compare(before, after Record) (changes []Change) {
	for _, key := range slices.Sorted(maps.Keys(before.Devices)) {
		old := before.Devices[key]
		now, still := after.Devices[key]
		old.Index, now.Index = nil, nil
		// The cell of an expander bus goes with the guest's cells.
		old.Expander, _, _ = strings.Cut(old.Expander, ":")
		now.Expander, _, _ = strings.Cut(now.Expander, ":")
		switch {
		case !still:
			changes = append(changes, Change{Device: key, Text: called(key) + " is removed", Verdict: NeedsRestart})
		case old != now:
			changes = append(changes, Change{Device: key, Text: fmt.Sprintf("%s moves from %s to %s", called(key), old, now), Verdict: Breaks})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after.Devices)) {
		if _, before := before.Devices[key]; !before {
			changes = append(changes, Change{Device: key, Text: called(key) + " is added", Verdict: NeedsRestart})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.MACs)) {
		if now, still := after.MACs[name]; still && now != before.MACs[name] {
			key := "interface." + name
			text := fmt.Sprintf("%s changes its MAC from '%s' to '%s'", called(key), before.MACs[name], now)
			changes = append(changes, Change{Device: key, Text: text, Verdict: Breaks})
		}
	}
	for _, fact := range facts {
		old, now := fact.of(before), fact.of(after)
		if !reflect.DeepEqual(old, now) {
			changes = append(changes, Change{Part: fact.name, Text: fmt.Sprintf("%s changes from '%v' to '%v'", fact.name, old, now), Verdict: fact.verdict})
		}
	}
	return changes
}

// called is a device in words, from its key.
func called(key string) string {
	kind, name, _ := strings.Cut(key, ".")
	return fmt.Sprintf("%s '%s'", kind, name)
}

// facts of a record beside its devices, by the names that platform has for them.
var facts = []struct {
	name    string
	verdict Verdict
	of      func(Record) any
}{
	{"the UUID", Breaks, func(r Record) any { return r.UUID }},
	{"the generation ID", NeedsRestart, func(r Record) any { return map[bool]string{false: "none", true: "given"}[r.GenerationID] }},
	{"the serial", Breaks, func(r Record) any { return r.Serial }},
	{"the machine", Breaks, func(r Record) any { return r.Machine }},
	{"the system information (SMBIOS)", Breaks, func(r Record) any { return r.SMBIOS }},
	{"the video model", Breaks, func(r Record) any { return r.Video }},
	{"the context identifier of the vsock", Breaks, func(r Record) any { return r.VSOCK }},
	{"the frequency of the time stamp counter", Breaks, func(r Record) any { return r.TSC }},
	{"the NUMA cells", Breaks, func(r Record) any { return r.NUMA }},
}
