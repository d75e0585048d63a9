package domainimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"libvirt.org/go/libvirtxml"
)

// Outcome is what becomes of an element of the domain.
type Outcome string

// The outcomes, from the best on.
const (
	// Kept means that the next boot has the element as it was: a field of the VM says it.
	Kept Outcome = "kept"
	// Recorded means that the hardware record keeps the element, which no field of the VM can say.
	Recorded Outcome = "kept by the record"
	// Mapped means that an object of the cluster takes the place of something of the host.
	Mapped Outcome = "mapped"
	// HostOnly means that the element is about the host, and the guest does not see it.
	HostOnly Outcome = "left to the cluster"
	// Changed means that the guest finds something else.
	Changed Outcome = "changed"
	// LeftOut means that the guest does not find the element any more.
	LeftOut Outcome = "left out"
	// Added means that the guest finds a device that the domain does not have.
	Added Outcome = "added"
)

// Report names each element of a domain.
type Report struct {
	// Domain is the name of the domain, and VM the name of the VirtualMachine.
	Domain string `json:"domain"`
	VM     string `json:"vm"`
	// Verdict is the worst verdict of the elements.
	Verdict record.Verdict `json:"verdict"`
	// Machine describes the domain.
	Machine []Fact `json:"machine"`
	// Elements are in the order of the domain, followed by what the guest finds in addition.
	Elements []Element `json:"elements"`
	// Sources are what the VM needs of the cluster.
	Sources []imported.Source `json:"sources"`
	// Choices are the instancetypes and preferences of a catalog that were tried, in their order.
	Choices []Choice `json:"choices,omitempty"`
	// Steps are what must be done before the VM can start, in their order.
	Steps []Step `json:"steps,omitempty"`
	// Notes are about the whole domain.
	Notes []string `json:"notes,omitempty"`
}

// Element is an element of the domain.
type Element struct {
	// Path is the path of the element below domain, with its index if there are several: devices/disk[1].
	Path string `json:"path"`
	// Device is the key of the device in hardware records, such as disk.vda; empty for other elements.
	Device  string  `json:"device,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Verdict is what the outcome means for the guest.
	Verdict record.Verdict `json:"verdict"`
	// Details say what is different and why.
	Details []string `json:"details,omitempty"`
	// Host are the settings of the element that the guest does not see, and that the VM does not have.
	Host []string `json:"host,omitempty"`
}

// reporter makes one report.
type reporter struct {
	reading *imported.Reading
	adopted render.Adopted
	changes []record.Change
	// reported says of each change whether an element of the report has it.
	reported []bool
	// seen is what the guest saw of the domain, then what it sees at the next boot, and next the domain of the next boot, as trees.
	seen, then, next *imported.Element
	// keys has the keys of the devices by kind and index.
	keys map[string][]string
	// after has the devices of the next boot by their keys.
	after map[string]*imported.Element
	// notes are the decisions of the reading by element or device.
	notes map[string][]string
	// noticed are the elements with a decision after which the guest may not boot as before.
	noticed map[string]bool
}

// makeReport compares the domain with the next boot element by element. next is the complete domain of the next boot.
func makeReport(doc *imported.Document, reading *imported.Reading, adopted render.Adopted, next *libvirtxml.Domain) (Report, error) {
	r := &reporter{reading: reading, adopted: adopted, changes: adopted.Changes, reported: make([]bool, len(adopted.Changes))}
	var err error
	if r.seen, err = treeOf(abi.Project(adopted.Before)); err == nil {
		if r.then, err = treeOf(abi.Project(adopted.After)); err == nil {
			r.next, err = treeOf(next)
		}
	}
	if err != nil {
		return Report{}, err
	}
	r.keys, r.after = deviceKeys(adopted.Before), map[string]*imported.Element{}
	counts := map[string]int{}
	after := deviceKeys(adopted.After)
	for _, child := range r.next.Child("devices").Children {
		if index := counts[child.Name]; index < len(after[child.Name]) {
			r.after[after[child.Name][index]] = child
		}
		counts[child.Name]++
	}
	r.notes, r.noticed = map[string][]string{}, map[string]bool{}
	for _, note := range reading.Notes {
		key := cmp.Or(note.Device, note.Element)
		r.notes[key] = append(r.notes[key], note.Text)
		r.noticed[key] = r.noticed[key] || note.Noticed
	}
	report := Report{Domain: doc.Domain.Name, Machine: factsOf(doc, reading.Domain), Sources: reading.Sources}
	for _, child := range doc.Root.Children {
		if child.Name == "devices" {
			report.Elements = append(report.Elements, r.reportDevices(child)...)
		} else {
			report.Elements = append(report.Elements, r.reportPart(child))
		}
	}
	report.Elements = append(report.Elements, r.reportRest()...)
	report.Notes = wholeNotes(doc, reading)
	report.Verdict = record.Compatible
	for _, element := range report.Elements {
		report.Verdict = worse(report.Verdict, element.Verdict)
	}
	return report, nil
}

// wholeNotes returns the notes about the whole domain.
func wholeNotes(doc *imported.Document, reading *imported.Reading) (notes []string) {
	if doc.Earlier > 0 {
		notes = append(notes, "the file has several documents of this domain; the last one was imported")
	}
	if reading.NoAddresses {
		notes = append(notes, "the devices have no addresses, because libvirt assigns them when it defines the domain. If the guest has booted already, import "+
			"what 'virsh dumpxml' prints: else it finds its devices at other addresses once")
	}
	return notes
}

// omittedNotes returns a note about the devices and features that Kiln's own guests have and the guest does not get. Settings of single devices are left out.
func omittedNotes(entries []string) []string {
	named := slices.DeleteFunc(slices.Clone(entries), func(entry string) bool { return record.IsDeviceSetting(entry) })
	if len(named) == 0 {
		return nil
	}
	return []string{"the guest does not get what Kiln gives to each guest and the domain lacks: " + strings.Join(named, ", ") +
		". An administrator who removes an entry from spec.hardware.omittedDefaults of the GuestHardware gives it to the guest at its next boot"}
}

// worse returns the worse of two verdicts.
func worse(a, b record.Verdict) record.Verdict {
	return record.Judge([]record.Change{{Verdict: a}, {Verdict: b}})
}

// treeOf returns a domain as a tree.
func treeOf(dom *libvirtxml.Domain) (*imported.Element, error) {
	text, err := dom.Marshal()
	if err != nil {
		return nil, err
	}
	return imported.ReadTree([]byte(text))
}

// deviceKeys returns the keys of the devices of a domain by kind, in the order of the domain.
func deviceKeys(dom *libvirtxml.Domain) map[string][]string {
	keys := map[string][]string{}
	for _, device := range abi.Devices(dom) {
		keys[device.Kind] = append(keys[device.Kind], device.Key())
	}
	return keys
}

// takeChanges returns the changes that match and that no element has yet.
func (r *reporter) takeChanges(match func(record.Change) bool) (changes []record.Change) {
	for i, change := range r.changes {
		if !r.reported[i] && match(change) {
			r.reported[i] = true
			changes = append(changes, change)
		}
	}
	return changes
}

// addChanges adds changes to an element.
func (e *Element) addChanges(changes []record.Change) {
	for _, change := range changes {
		e.Outcome, e.Verdict = Changed, worse(e.Verdict, change.Verdict)
		e.Details = append(e.Details, change.Text)
	}
}

// partsOf are the parts of the platform that the children of a domain set.
var partsOf = map[string][]record.Part{
	"uuid": {record.PartUUID}, "genid": {record.PartGenerationID}, "memory": {record.PartMemory}, "vcpu": {record.PartVCPUs},
	"sysinfo":  {record.PartSMBIOS, record.PartFirmwareFiles, record.PartSerial},
	"os":       {record.PartPlatform, record.PartMachine, record.PartBoot, record.PartFirmware},
	"features": {record.PartFeatures}, "pm": {record.PartFeatures},
	"cpu": {record.PartTopology, record.PartCPU, record.PartNUMA}, "clock": {record.PartClock, record.PartTSC},
	"launchSecurity": {record.PartLaunchSecurity},
}

// reportPart reports a child of domain that is not the devices.
func (r *reporter) reportPart(child *imported.Element) Element {
	out := Element{Path: child.Name, Outcome: Kept, Verdict: record.Compatible, Details: r.notes[child.Name]}
	if reason, known := hostParts[child.Name]; known {
		out.Outcome, out.Details = reason.outcome, append(out.Details, reason.text)
		out.Verdict = reason.verdict()
		if out.Outcome == HostOnly {
			out.Host = settingsOf(child)
		}
		return out
	}
	out.addChanges(r.takeChanges(func(c record.Change) bool { return slices.Contains(partsOf[child.Name], c.Part) }))
	if out.Outcome == Changed {
		out.Details = append(out.Details, settingChanges(r.seen.Child(child.Name), r.then.Child(child.Name))...)
	}
	if r.noticed[child.Name] {
		out.Outcome, out.Verdict = Changed, record.Breaks
	}
	if partsOf[child.Name] == nil && out.Outcome == Kept {
		out.Outcome, out.Verdict = LeftOut, record.NeedsRestart
		out.Details = append(out.Details, "a VM has no field for it")
	}
	out.Host = r.hostSettings(child, r.seen.Child(child.Name), r.next.Child(child.Name))
	return out
}

// settingChanges returns the settings that an element loses and gets.
func settingChanges(before, after *imported.Element) (changes []string) {
	had, has := settingSet(before), settingSet(after)
	for _, side := range []struct {
		verb   string
		of     *imported.Element
		others map[imported.Setting]bool
	}{{"without ", before, has}, {"with ", after, had}} {
		if side.of == nil {
			continue
		}
		for _, setting := range side.of.Settings() {
			if !side.others[setting] {
				changes = append(changes, side.verb+withoutSecret(setting).String())
			}
		}
	}
	return changes
}

// settingSet returns the settings of an element, which may be nil.
func settingSet(of *imported.Element) map[imported.Setting]bool {
	set := map[imported.Setting]bool{}
	if of != nil {
		for _, setting := range of.Settings() {
			set[setting] = true
		}
	}
	return set
}

// reportDevices reports each device.
func (r *reporter) reportDevices(devices *imported.Element) (all []Element) {
	counts := map[string]int{}
	for _, child := range devices.Children {
		all = append(all, r.reportDevice(child, counts[child.Name]))
		counts[child.Name]++
	}
	return all
}

// reportDevice reports a device. index counts the devices of its kind.
func (r *reporter) reportDevice(child *imported.Element, index int) Element {
	path := fmt.Sprintf("devices/%s[%d]", child.Name, index)
	out := Element{Path: path, Outcome: Kept, Verdict: record.Compatible, Details: r.notes[path]}
	if reason, known := hostDevices[child.Name]; known {
		if child.Name == "console" && len(out.Details) > 0 { // it is not the serial port
			reason, out.Details = leftOut(out.Details[0]), nil
		}
		out.Outcome, out.Details, out.Verdict = reason.outcome, append(out.Details, reason.text), reason.verdict()
		out.Host = settingsOf(child)
		return out
	}
	if child.Name == "watchdog" && child.Attribute("model") == "itco" {
		out.Details = append(out.Details, "each machine of q35 has this watchdog")
		return out
	}
	if keys := r.keys[child.Name]; index < len(keys) {
		out.Device = keys[index]
	}
	after := r.after[out.Device]
	out.Details = append(out.Details, r.notes[out.Device]...)
	changes := r.takeChanges(func(c record.Change) bool { return out.Device != "" && c.Device == out.Device })
	switch {
	case after == nil && child.Attribute("model") == "none": // a balloon or USB controller that is switched off
		return out
	case after == nil:
		out.Outcome, out.Verdict = LeftOut, record.NeedsRestart
		switch {
		case len(out.Details) > 0:
		case child.Name == "controller":
			out.Details = []string{fmt.Sprintf("no device of the VM needs a controller of type '%s'", child.Attribute("type"))}
		default:
			out.Details = []string{"a VM cannot have this device"}
		}
		return out
	case len(changes) > 0:
		out.addChanges(changes)
		if strings.HasSuffix(changes[0].Text, " is removed") { // a USB controller without devices
			out.Outcome = LeftOut
		}
	case hasRecordedPlace(child):
		out.Outcome = Recorded
	}
	for _, source := range r.reading.Sources {
		if source.Device == out.Device {
			if out.Outcome != Changed {
				out.Outcome = Mapped
			}
			out.Details = append(out.Details, mappingText(source))
		}
	}
	out.Host = r.hostSettings(child, nthChild(r.seen.Child("devices"), child.Name, index), after)
	return out
}

// mappingText says what takes the place of something of the host.
func mappingText(source imported.Source) string {
	return cmp.Or(source.From, "nothing") + " becomes " + source.To
}

// hasRecordedPlace reports whether the device has an address or an index, which the record keeps.
func hasRecordedPlace(child *imported.Element) bool {
	return child.Child("address") != nil || child.Name == "controller"
}

// nthChild returns the child with an index among the children of its name; nil without one.
func nthChild(parent *imported.Element, name string, index int) *imported.Element {
	if parent == nil {
		return nil
	}
	for _, child := range parent.Children {
		if child.Name != name {
			continue
		}
		if index == 0 {
			return child
		}
		index--
	}
	return nil
}

// unimportant are settings of devices that are names of the host, or that libvirt writes by itself. The rest of a path does not matter.
var unimportant = []string{"alias/", "backingStore", "target/@", "source", "@type", "@index", "@device", "mirror", "protocol/", "driver/@name", "driver/@type"}

// hostSettings returns the settings of an element that the guest does not see, and that the next boot does not have.
func (r *reporter) hostSettings(given, seen, next *imported.Element) (left []string) {
	ofGuest, ofNext := settingSet(seen), settingSet(next)
	for _, setting := range given.Settings() {
		isName := slices.ContainsFunc(unimportant, func(prefix string) bool { return strings.HasPrefix(setting.Path, prefix) })
		alike := imported.Setting{Path: setting.Path, Value: setting.Value + "-non-transitional"} // a modern guest of q35 finds the same device
		if !ofGuest[setting] && !ofNext[setting] && !ofNext[alike] && !isName && setting.Path != "" {
			left = append(left, withoutSecret(setting).String())
		}
	}
	return left
}

// settingsOf returns the settings of an element in words.
func settingsOf(given *imported.Element) (all []string) {
	for _, setting := range given.Settings() {
		if setting.Path == "" {
			setting.Path = "text"
		}
		all = append(all, withoutSecret(setting).String())
	}
	return all
}

// withoutSecret hides the value of a setting that may be a secret: the password of a display, which 'virsh dumpxml --security-info' prints, and strings for
// the first boot of a guest in the DMI table.
func withoutSecret(setting imported.Setting) imported.Setting {
	if strings.HasSuffix(setting.Path, "@passwd") || strings.HasPrefix(setting.Path, "oemStrings/") || strings.HasPrefix(setting.Path, "entry") {
		setting.Value = "(hidden)"
	}
	return setting
}

// reportRest reports the changes that belong to no element of the domain: devices and settings that each guest of Kiln has.
func (r *reporter) reportRest() (all []Element) {
	for _, change := range r.takeChanges(func(record.Change) bool { return true }) {
		all = append(all, Element{Path: cmp.Or(change.Device, string(change.Part)), Device: change.Device, Outcome: Added, Verdict: change.Verdict,
			Details: []string{change.Text}})
	}
	return all
}
