package abi

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Changes names, in plain words, each difference that a guest sees between two domains. It is empty exactly when the digests
// are equal.
func Changes(before, after *libvirtxml.Domain) (words []string) {
	for _, c := range Compare(before, after) {
		words = append(words, c.Text)
	}
	return words
}

// Compare is Changes with what each means for the guest.
func Compare(before, after *libvirtxml.Domain) []record.Change {
	was, is := Project(before), Project(after)
	changes := deviceChanges(was, is)
	for _, part := range platform {
		if text(part.of(was)) != text(part.of(is)) {
			changes = append(changes, record.Change{Part: part.name, Text: part.changes() + part.words(was, is), Verdict: part.verdict})
		}
	}
	return changes
}

// text is the canonical text of several parts of a domain.
func text(parts []any) string {
	var out []byte
	for _, part := range parts {
		out = append(canonical(out, part), ';')
	}
	return string(out)
}

// part is one part of the platform. words may give the values.
type part struct {
	name    string
	verdict record.Verdict
	of      func(*libvirtxml.Domain) []any
	words   func(was, is *libvirtxml.Domain) string
}

// plural are the parts of which there are several.
var plural = []string{"the NUMA cells", "the features", "the memory devices or IOMMU"}

// changes is the part with the verb that its number asks for.
func (p part) changes() string {
	if slices.Contains(plural, p.name) {
		return p.name + " change"
	}
	return p.name + " changes"
}

func silent(_, _ *libvirtxml.Domain) string { return "" }

// values shows what differs where it is short.
func values(of func(*libvirtxml.Domain) string) func(was, is *libvirtxml.Domain) string {
	return func(was, is *libvirtxml.Domain) string {
		old, new := of(was), of(is)
		if old == new {
			return ""
		}
		return fmt.Sprintf(" from %s to %s", quoted(old), quoted(new))
	}
}

// quoted is a value for people; an empty one is none.
func quoted(value string) string {
	if value == "" {
		return "none"
	}
	return "'" + value + "'"
}

// platform is everything but devices. What software binds itself to, or a boot depends on, breaks; more or less of what guests
// find out anew at each boot does not.
var platform = []part{
	{"the UUID", record.Breaks, func(d *libvirtxml.Domain) []any { return []any{d.UUID} }, values(func(d *libvirtxml.Domain) string { return d.UUID })},
	{"the generation ID", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{d.GenID} }, silent},
	{"the machine or firmware", record.Breaks, func(d *libvirtxml.Domain) []any { return []any{platformOS(d)} }, values(machineOf)},
	{"what the firmware boots", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{bootOS(d)} }, silent},
	{"the memory", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{d.Memory, d.MaximumMemory} }, memoryWords},
	{"the number of CPUs", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{d.VCPU, d.VCPUs} }, values(vcpusOf)},
	{"the CPU topology", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{topologyOf(d)} }, values(topologyWords)},
	{"the CPU", record.Breaks, func(d *libvirtxml.Domain) []any { return []any{cpuAlone(d)} }, values(modelOf)},
	{"the NUMA cells", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{numaOf(d)} }, values(cellsOf)},
	{"the system information (SMBIOS)", record.Breaks, func(d *libvirtxml.Domain) []any { return []any{sysinfoOf(d, "smbios")} }, silent},
	{FirmwareFiles, record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{sysinfoOf(d, "fwcfg")} }, silent},
	{"the features", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{d.Features} }, silent},
	{"the clock", record.NeedsRestart, func(d *libvirtxml.Domain) []any { return []any{d.Clock} }, silent},
	{"the launch security", record.Breaks, func(d *libvirtxml.Domain) []any { return []any{d.LaunchSecurity} }, silent},
	{"the memory devices or IOMMU", record.NeedsRestart, func(d *libvirtxml.Domain) []any {
		if d.Devices == nil {
			return nil
		}
		return []any{d.Devices.Memorydevs, d.Devices.IOMMUs}
	}, silent},
}

// FirmwareFiles is the part of the platform that Ignition reads.
const FirmwareFiles = "the configuration that the firmware hands on (fw_cfg)"

func machineOf(d *libvirtxml.Domain) string {
	if d.OS == nil || d.OS.Type == nil {
		return ""
	}
	return d.OS.Type.Machine
}

// sysinfoOf is one kind of the system information.
func sysinfoOf(d *libvirtxml.Domain, kind string) (out []libvirtxml.DomainSysInfo) {
	for _, s := range d.SysInfo {
		if (s.FWCfg != nil) == (kind == "fwcfg") {
			out = append(out, s)
		}
	}
	return out
}

// deviceChanges lists added, removed, moved and otherwise changed devices, in the order of before and then of after.
func deviceChanges(was, is *libvirtxml.Domain) []record.Change {
	old, new := described(was), described(is)
	byKey := make(map[string]description, len(new))
	for _, d := range new {
		byKey[d.key] = d
	}
	var changes []record.Change
	seen := make(map[string]bool, len(old))
	for _, d := range old {
		seen[d.key] = true
		now, still := byKey[d.key]
		switch {
		case !still:
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " is removed", Verdict: record.NeedsRestart})
		case now.address != d.address:
			changes = append(changes, record.Change{Device: d.key, Text: fmt.Sprintf("%s moves from %s to %s", d.words, d.address, now.address), Verdict: record.Breaks})
		case now.identity != d.identity:
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " changes" + differing(d.identity, now.identity), Verdict: record.Breaks})
		case now.text != d.text:
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " changes" + settings(d.element, now.element), Verdict: record.NeedsRestart})
		}
	}
	for _, d := range new {
		if !seen[d.key] {
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " is added", Verdict: record.NeedsRestart})
		}
	}
	return changes
}

// description is a device in words and as text. The key does for records, which compare by it too; the identity is what a
// guest knows the device by.
type description struct {
	key, words, text, identity, address string
	element                             any
}

func described(dom *libvirtxml.Domain) []description {
	var out []description
	for _, d := range Devices(dom) {
		a := FromLibvirt(*d.Address)
		a.Index = nil
		if d.Disk != nil && d.Disk.Target != nil {
			a.Target = d.Disk.Target.Dev
		}
		out = append(out, description{d.Key(), fmt.Sprintf("%s '%s'", d.Kind, d.Name), text([]any{d.Element}), identity(d), a.String(), d.Element})
	}
	return out
}
