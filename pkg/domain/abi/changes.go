package abi

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// Changes returns a text for each difference that a guest sees between two domains. It is empty exactly when the digests are equal.
func Changes(before, after *libvirtxml.Domain) (words []string) {
	for _, c := range Compare(before, after) {
		words = append(words, c.Text)
	}
	return words
}

// Compare returns the changes of the devices and then of the platform, each with the part or device that it concerns and its verdict: whether it
// breaks the guest's hardware or only needs a restart.
func Compare(before, after *libvirtxml.Domain) []record.Change {
	moves := bootMoves(before, after)
	before, after = Project(before), Project(after)
	changes := deviceChanges(before, after)
	for _, part := range platform {
		moved := part.id == record.PartBoot && moves // the text does not name the usual disk
		if !moved && textOf(part.of(before)) == textOf(part.of(after)) {
			continue
		}
		change := record.Change{Part: part.id, Text: part.id.Changes() + part.words(before, after), Verdict: part.id.Verdict()}
		if moved {
			change.Verdict = record.Breaks
		}
		changes = append(changes, change)
	}
	return changes
}

// textOf is the canonical text of several parts of a domain.
func textOf(parts []any) string {
	var out []byte
	for _, part := range parts {
		out = append(appendCanonical(out, part), ';')
	}
	return string(out)
}

// platformPart is one part of the platform: its fields in a domain, and a text with their old and new values, which may be empty.
type platformPart struct {
	id    record.Part
	of    func(*libvirtxml.Domain) []any
	words func(before, after *libvirtxml.Domain) string
}

// noValues is for parts whose values are too long for a message.
func noValues(_, _ *libvirtxml.Domain) string { return "" }

// shortValues returns the text of a part whose values are short: the old and the new value.
func shortValues(of func(*libvirtxml.Domain) string) func(before, after *libvirtxml.Domain) string {
	return func(before, after *libvirtxml.Domain) string {
		old, new := of(before), of(after)
		if old == new {
			return ""
		}
		return fmt.Sprintf(" from %s to %s", quoteOrNone(old), quoteOrNone(new))
	}
}

// quoteOrNone puts a value in single quotes, as in Kubernetes' messages. An empty value becomes the word none, without quotes.
func quoteOrNone(value string) string {
	if value == "" {
		return "none"
	}
	return "'" + value + "'"
}

// platform is everything but devices. Together with the projections of devices it covers the whole projection: a field that is in no part would
// change the digest without a text.
var platform = []platformPart{
	{record.PartUUID, func(d *libvirtxml.Domain) []any { return []any{d.UUID} }, shortValues(func(d *libvirtxml.Domain) string { return d.UUID })},
	{record.PartGenerationID, func(d *libvirtxml.Domain) []any { return []any{d.GenID} }, noValues},
	{record.PartPlatform, func(d *libvirtxml.Domain) []any { return []any{platformOS(d)} }, shortValues(machineOf)},
	{record.PartBoot, func(d *libvirtxml.Domain) []any { return []any{bootOS(d)} }, bootWords},
	{record.PartMemory, func(d *libvirtxml.Domain) []any { return []any{d.Memory, d.MaximumMemory, physicalAddresses(d)} }, memoryWords},
	{record.PartVCPUs, func(d *libvirtxml.Domain) []any { return []any{d.VCPU, d.VCPUs} }, shortValues(vcpusOf)},
	{record.PartTopology, func(d *libvirtxml.Domain) []any { return []any{topologyOf(d)} }, shortValues(topologyWords)},
	{record.PartCPU, func(d *libvirtxml.Domain) []any { return []any{cpuAlone(d)} }, cpuWords},
	{record.PartNUMA, func(d *libvirtxml.Domain) []any { return []any{numaOf(d)} }, shortValues(numaText)},
	{record.PartSMBIOS, func(d *libvirtxml.Domain) []any { return []any{sysinfoOf(d, "smbios")} }, noValues},
	{record.PartFirmwareFiles, func(d *libvirtxml.Domain) []any { return []any{sysinfoOf(d, "fwcfg")} }, noValues},
	{record.PartFeatures, func(d *libvirtxml.Domain) []any { return []any{d.Features, d.PM} }, noValues},
	{record.PartClock, func(d *libvirtxml.Domain) []any { return []any{d.Clock} }, noValues},
	{record.PartLaunchSecurity, func(d *libvirtxml.Domain) []any { return []any{d.LaunchSecurity} }, noValues},
	{record.PartMemoryDevices, func(d *libvirtxml.Domain) []any {
		if d.Devices == nil {
			return nil
		}
		return []any{d.Devices.Memorydevs, d.Devices.IOMMUs}
	}, noValues},
}

// machineOf is the machine type.
func machineOf(d *libvirtxml.Domain) string {
	if d.OS == nil || d.OS.Type == nil {
		return ""
	}
	return d.OS.Type.Machine
}

// sysinfoOf returns the system information of one kind: smbios or fwcfg.
func sysinfoOf(d *libvirtxml.Domain, kind string) (out []libvirtxml.DomainSysInfo) {
	for _, s := range d.SysInfo {
		if (s.FWCfg != nil) == (kind == "fwcfg") {
			out = append(out, s)
		}
	}
	return out
}

// deviceChanges lists removed, moved and changed devices in the order of the old domain, then added ones in the order of the new domain. A moved device breaks
// the guest's hardware: an operating system names network cards and finds boot disks by their addresses.
func deviceChanges(before, after *libvirtxml.Domain) []record.Change {
	old, new := describeDevices(before), describeDevices(after)
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
			text := fmt.Sprintf("%s moves from %s to %s", d.words, d.address, now.address)
			if now.identity != d.identity { // another model or bus is mostly why it moves
				text += ", and changes" + differingIdentity(d.identity, now.identity)
			}
			changes = append(changes, record.Change{Device: d.key, Text: text, Verdict: record.Breaks})
		case now.identity != d.identity:
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " changes" + differingIdentity(d.identity, now.identity), Verdict: record.Breaks})
		case now.text != d.text:
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " changes" + differingSettings(d.element, now.element), Verdict: record.NeedsRestart})
		}
	}
	for _, d := range new {
		if !seen[d.key] {
			changes = append(changes, record.Change{Device: d.key, Text: d.words + " is added", Verdict: record.NeedsRestart})
		}
	}
	return changes
}

// description has what is compared of a device. key is its key in the record, words name it for people, and the guest recognizes it by identity.
type description struct {
	key, words, text, identity, address string
	element                             any
}

// describeDevices lists the devices of a domain. Model 'none' of a USB controller, balloon or video adapter says that the guest has none.
func describeDevices(dom *libvirtxml.Domain) []description {
	var out []description
	for _, d := range Devices(dom) {
		if d.Model == "none" {
			continue
		}
		a := FromLibvirt(*d.Address)
		a.Index = nil
		if d.Disk != nil && d.Disk.Target != nil {
			a.Target = d.Disk.Target.Dev
		}
		out = append(out, description{d.Key(), fmt.Sprintf("%s '%s'", d.Kind, d.Name), textOf([]any{d.Element}), identityOf(d), a.String(), d.Element})
	}
	return out
}
