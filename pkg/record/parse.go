package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/shorten"
)

// A record comes from a launcher or a backup tool. It decides how many controllers are built and what QEMU is started with, so that each
// value is judged before anything is made of it. Whether a machine or video model is one of the guest's architecture is for stage 2 to say.

const (
	// longestRecord bounds what a controller or launcher holds and compares for each guest, in bytes of JSON.
	longestRecord = 256 << 10
	// mostDevices is more than the PCI buses of a guest and the units of its disk controllers hold.
	mostDevices = 1024
	// mostFindings is how many mistakes are listed; the others are counted.
	mostFindings = 8
	// longestValue is how much of a wrong value is repeated, in characters.
	longestValue = 64
	// longestText is the length of a DMI string, in bytes.
	longestText = 1024
)

// Check refuses a record that no boot can have written. The error names the entries, in at most a few thousand bytes. A
// record without error is safe to render. Nil is none, and is accepted.
func Check(record *Record) error {
	if record == nil {
		return nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("not a record of hardware: %s", shortened(err.Error(), 4*longestValue))
	}
	if len(text) > longestRecord {
		return fmt.Errorf("not a record of hardware: %d bytes, at most %d are allowed", len(text), longestRecord)
	}
	var found findings
	judge(record, &found)
	if err := found.err(); err != nil {
		return fmt.Errorf("not a record of hardware: %w", err)
	}
	return nil
}

// findings are the mistakes of a record.
type findings struct {
	texts []string
	more  int
}

func (f *findings) add(entry string, value any, err error) {
	switch {
	case err == nil:
	case len(f.texts) == mostFindings:
		f.more++
	default:
		f.texts = append(f.texts, fmt.Sprintf("%s '%s': %v", shortened(entry, 2*longestValue), shortened(fmt.Sprint(value), longestValue), err))
	}
}

func (f *findings) err() error {
	if len(f.texts) == 0 {
		return nil
	}
	text := strings.Join(f.texts, "; ")
	if f.more > 0 {
		text += fmt.Sprintf("; and %d more", f.more)
	}
	return errors.New(text)
}

// shortened cuts a text of others at a character, and leaves out what no line of text holds.
func shortened(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return shorten.Runes(text, most)
}

func judge(r *Record, f *findings) {
	for _, word := range []struct {
		name, value string
		form        *regexp.Regexp
		like        string
	}{
		{"defaults", r.Defaults, versionForm, "letters, digits and '._-'"},
		{"digest", r.Digest, digestForm, "'sha256:' and 64 hexadecimal digits"},
		{"uuid", r.UUID, uuidForm, "a UUID"},
		{"machine", r.Machine, machineForm, "a machine type such as 'pc-q35-9.2'"},
		{"video", r.Video, modelForm, "a video model such as 'vga'"},
		{"usb", r.USB, modelForm, "a model of USB controllers such as 'nec-xhci'"},
	} {
		if word.value != "" {
			f.add(word.name, word.value, formed(word.form, word.value, word.like))
		}
	}
	f.add("serial", r.Serial, legible(r.Serial))
	if r.BootDisk != "" {
		f.add("bootDisk", r.BootDisk, named(r.BootDisk, "the name of a disk"))
	}
	f.add("freePorts", r.FreePorts, between(r.FreePorts, 0, address.MaxPorts))
	f.add("vsock", r.VSOCK, contextID(r.VSOCK))
	f.add("tsc", r.TSC, frequency(r.TSC))
	for _, name := range sorted(r.SMBIOS) {
		f.add("smbios", name, systemString(name))
		f.add("smbios["+name+"]", r.SMBIOS[name], legible(r.SMBIOS[name]))
	}
	for _, name := range sorted(r.MACs) {
		f.add("macs", name, named(name, "the name of an interface"))
		f.add("macs["+name+"]", r.MACs[name], formed(macForm, r.MACs[name], "a unicast MAC address such as '02:1a:4b:00:00:01'"))
	}
	for _, name := range sorted(r.BlockSizes) {
		f.add("blockSizes", name, named(name, "the name of a disk"))
		f.add("blockSizes["+name+"]", r.BlockSizes[name], judgeBlockSize(r.BlockSizes[name]))
	}
	if len(r.Devices) > mostDevices {
		f.add("devices", len(r.Devices), fmt.Errorf("must have at most %d entries", mostDevices))
		return
	}
	for _, key := range sorted(r.Devices) {
		f.add("devices", key, formed(keyForm, key, "a kind and a name such as 'disk.root'"))
		judgeAddress(r.Devices[key], "devices["+key+"]", f)
	}
	judgeNUMANodes(r.NUMA, f)
}

// judge names what of an address the allocator cannot give.
func judgeAddress(a Address, entry string, f *findings) {
	for _, place := range []struct {
		name, text string
		parse      func(string) error
	}{
		{"pci", a.PCI, onBus},
		{"drive", a.Drive, discarding(address.ParseDrive)},
		{"usb", a.USB, discarding(address.ParseUSB)},
		{"serial", a.Serial, discarding(address.ParseSerial)},
		{"ccw", a.CCW, discarding(address.ParseCCW)},
		{"target", a.Target, discarding(address.ParseTarget)},
		{"expander", a.Expander, discarding(address.ParseExpander)},
	} {
		if place.text != "" {
			f.add(entry+"."+place.name, place.text, place.parse(place.text))
		}
	}
	if a.Index != nil {
		f.add(entry+".index", *a.Index, between(*a.Index, 0, address.MaxPorts))
	}
}

func onBus(text string) error {
	at, err := address.ParsePCI(text)
	if err == nil && at.Bus > address.MaxPorts {
		return fmt.Errorf("the bus must be from '00' to '%x'", address.MaxPorts)
	}
	return err
}

func discarding[T any](parse func(string) (T, error)) func(string) error {
	return func(text string) error { _, err := parse(text); return err }
}

// Forms of words. Whether a machine or another model is one of the guest's architecture is said elsewhere.
var (
	versionForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)
	digestForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	uuidForm    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$`)
	machineForm = regexp.MustCompile(`^[a-z][A-Za-z0-9._-]{0,63}$`)
	modelForm   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	// The second digit of a unicast address is even.
	macForm = regexp.MustCompile(`^[0-9a-fA-F][02468aceACE]([:-][0-9a-fA-F]{2}){5}$`)
	// Kinds are not listed: one that a later version has, or that this guest has not, has no effect.
	keyForm = regexp.MustCompile(`^[a-z]+\.[A-Za-z0-9._-]+$`)
)

func formed(form *regexp.Regexp, text, like string) error {
	if form.MatchString(text) {
		return nil
	}
	return errors.New("must be " + like)
}

func named(name, like string) error {
	if vm.IsDeviceName(name) {
		return nil
	}
	return errors.New("must be " + like)
}

// legible judges a DMI string, which the guest's owner may choose.
func legible(text string) error {
	if len(text) > longestText {
		return fmt.Errorf("must have at most %d bytes", longestText)
	}
	// What XML cannot hold would reach libvirt as another character.
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xfffe || r == 0xffff }) {
		return errors.New("must not contain control characters")
	}
	return nil
}

func systemString(name string) error {
	if slices.Contains([]string{"manufacturer", "product", "version", "sku", "family"}, name) {
		return nil
	}
	return errors.New("must be manufacturer, product, version, sku or family")
}

func between[T int | uint | uint64](n, least, most T) error {
	if n < least || n > most {
		return fmt.Errorf("must be from %d to %d", least, most)
	}
	return nil
}

func sorted[T any](entries map[string]T) []string { return slices.Sorted(maps.Keys(entries)) }
