package abi

import (
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// Changes compares the projections of two domains and names, in plain words, each difference that a guest sees. It is empty
// exactly when the digests are equal.
func Changes(before, after *libvirtxml.Domain) []string {
	was, is := Project(before), Project(after)
	changes := deviceChanges(was, is)
	for _, part := range platform {
		if text(part.of(was)) != text(part.of(is)) {
			changes = append(changes, part.name+" changes"+part.words(was, is))
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
	name  string
	of    func(*libvirtxml.Domain) []any
	words func(was, is *libvirtxml.Domain) string
}

func silent(_, _ *libvirtxml.Domain) string { return "" }

// values shows what differs where it is short.
func values(of func(*libvirtxml.Domain) string) func(was, is *libvirtxml.Domain) string {
	return func(was, is *libvirtxml.Domain) string {
		old, new := of(was), of(is)
		if old == new {
			return ""
		}
		return fmt.Sprintf(" from '%s' to '%s'", old, new)
	}
}

var platform = []part{
	{"the UUID", func(d *libvirtxml.Domain) []any { return []any{d.UUID} }, values(func(d *libvirtxml.Domain) string { return d.UUID })},
	{"the machine or firmware", func(d *libvirtxml.Domain) []any { return []any{d.OS} }, values(machineOf)},
	{"the memory", func(d *libvirtxml.Domain) []any { return []any{d.Memory, d.MaximumMemory} }, values(memoryOf)},
	{"the number of CPUs", func(d *libvirtxml.Domain) []any { return []any{d.VCPU, d.VCPUs} }, silent},
	{"the CPU", func(d *libvirtxml.Domain) []any { return []any{cpuAlone(d)} }, silent},
	{"the NUMA cells", func(d *libvirtxml.Domain) []any { return []any{numaOf(d)} }, values(cellsOf)},
	{"the system information (SMBIOS)", func(d *libvirtxml.Domain) []any { return []any{d.SysInfo} }, silent},
	{"the features", func(d *libvirtxml.Domain) []any { return []any{d.Features} }, silent},
	{"the clock", func(d *libvirtxml.Domain) []any { return []any{d.Clock} }, silent},
	{"the launch security", func(d *libvirtxml.Domain) []any { return []any{d.LaunchSecurity} }, silent},
	{"the memory devices or IOMMU", func(d *libvirtxml.Domain) []any {
		if d.Devices == nil {
			return nil
		}
		return []any{d.Devices.Memorydevs, d.Devices.IOMMUs}
	}, silent},
}

func machineOf(d *libvirtxml.Domain) string {
	if d.OS == nil || d.OS.Type == nil {
		return ""
	}
	return d.OS.Type.Machine
}

func memoryOf(d *libvirtxml.Domain) string {
	if d.Memory == nil {
		return ""
	}
	return fmt.Sprintf("%d %s", d.Memory.Value, d.Memory.Unit)
}

// deviceChanges lists added, removed, moved and otherwise changed devices, in the order of before and then of after.
func deviceChanges(was, is *libvirtxml.Domain) []string {
	old, new := described(was), described(is)
	byKey := make(map[string]description, len(new))
	for _, d := range new {
		byKey[d.key] = d
	}
	var changes []string
	seen := make(map[string]bool, len(old))
	for _, d := range old {
		seen[d.key] = true
		now, still := byKey[d.key]
		switch {
		case !still:
			changes = append(changes, d.words+" is removed")
		case now.address != d.address:
			changes = append(changes, fmt.Sprintf("%s moves from %s to %s", d.words, d.address, now.address))
		case now.text != d.text:
			changes = append(changes, d.words+" changes")
		}
	}
	for _, d := range new {
		if !seen[d.key] {
			changes = append(changes, d.words+" is added")
		}
	}
	return changes
}

// description is a device in words and as text. The key does for records, which compare by it too.
type description struct{ key, words, text, address string }

func described(dom *libvirtxml.Domain) []description {
	var out []description
	for _, d := range Devices(dom) {
		a := FromLibvirt(*d.Address)
		a.Index = nil
		if d.Disk != nil && d.Disk.Target != nil {
			a.Target = d.Disk.Target.Dev
		}
		out = append(out, description{d.Key(), fmt.Sprintf("%s '%s'", d.Kind, d.Name), text([]any{d.Element}), a.String()})
	}
	return out
}

// String is the address for people.
func (a Address) String() string {
	text := a.PCI + a.Drive + a.USB + a.Serial + a.CCW
	if a.Target != "" && text != "" {
		return a.Target + " at " + text
	}
	if text == "" && a.Target == "" {
		return "no address"
	}
	return text + a.Target
}
