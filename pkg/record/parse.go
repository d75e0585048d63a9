package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/shorten"
)

// A record comes from a launcher or a backup tool. It decides how many controllers a guest gets and how QEMU is started, so that each value is judged before it
// is used. Stage 2 judges whether a machine or video model fits the guest's architecture.

const (
	// longestRecord is the bound of a record as JSON, in bytes. Controllers and launchers keep and compare a record for each guest.
	longestRecord = 256 << 10
	// mostDevices is more than the PCI buses of a guest and the units of its disk controllers can have.
	mostDevices = 1024
	// mostFindings is the number of mistakes that an error lists. Further mistakes are counted.
	mostFindings = 8
	// longestValue is the number of characters to which a wrong value is cut.
	longestValue = 64
	// longestText is the longest DMI string, in bytes.
	longestText = 1024
)

// Check returns an error for a record that no boot can have written. The error names the entries, in at most a few thousand bytes. A record without an error is
// safe to render. Nil means that there is no record, and is accepted.
func Check(record *Record) error {
	if record == nil {
		return nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("not a record of hardware: %s", printable(err.Error(), 4*longestValue))
	}
	if len(text) > longestRecord {
		return fmt.Errorf("not a record of hardware: %d bytes, at most %d are allowed", len(text), longestRecord)
	}
	var found findings
	checkRecord(record, &found)
	if err := found.asError(); err != nil {
		return fmt.Errorf("not a record of hardware: %w", err)
	}
	return nil
}

// findings are the mistakes of a record.
type findings struct {
	texts []string
	more  int
}

func (f *findings) addFinding(entry string, value any, err error) {
	switch {
	case err == nil:
	case len(f.texts) == mostFindings:
		f.more++
	default:
		f.texts = append(f.texts, fmt.Sprintf("%s '%s': %v", printable(entry, 2*longestValue), printable(fmt.Sprint(value), longestValue), err))
	}
}

func (f *findings) asError() error {
	if len(f.texts) == 0 {
		return nil
	}
	text := strings.Join(f.texts, "; ")
	if f.more > 0 {
		text += fmt.Sprintf("; and %d more", f.more)
	}
	return errors.New(text)
}

// printable cuts an untrusted text to a number of characters, and replaces characters that cannot be printed.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return shorten.Runes(text, most)
}

func checkRecord(r *Record, f *findings) {
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
			f.addFinding(word.name, word.value, matchForm(word.form, word.value, word.like))
		}
	}
	f.addFinding("schemaVersion", r.SchemaVersion, checkRange(int(r.SchemaVersion), 0, math.MaxInt32))
	f.addFinding("serial", r.Serial, checkText(r.Serial))
	if r.BootDisk != "" {
		f.addFinding("bootDisk", r.BootDisk, checkDeviceName(r.BootDisk, "the name of a disk"))
	}
	if r.Firmware != "" {
		f.addFinding("firmware", r.Firmware, CheckFirmware(r.Firmware))
	}
	f.addFinding("freePorts", r.FreePorts, checkRange(r.FreePorts, 0, address.MaxPorts))
	f.addFinding("vsock", r.VSOCK, checkContextID(r.VSOCK))
	f.addFinding("tsc", r.TSC, checkFrequency(r.TSC))
	checkCPU(r.CPU, f)
	for _, name := range sortedKeys(r.SMBIOS) {
		f.addFinding("smbios", name, checkSMBIOSName(name))
		f.addFinding("smbios["+name+"]", r.SMBIOS[name], checkText(r.SMBIOS[name]))
	}
	for _, name := range sortedKeys(r.BIOS) {
		f.addFinding("bios["+name+"]", r.BIOS[name], CheckBIOS(name, r.BIOS[name]))
	}
	for _, name := range sortedKeys(r.MACs) {
		f.addFinding("macs", name, checkDeviceName(name, "the name of an interface"))
		f.addFinding("macs["+name+"]", r.MACs[name], matchForm(macForm, r.MACs[name], "a unicast MAC address such as '02:1a:4b:00:00:01'"))
	}
	for _, name := range sortedKeys(r.BlockSizes) {
		f.addFinding("blockSizes", name, checkDeviceName(name, "the name of a disk"))
		f.addFinding("blockSizes["+name+"]", r.BlockSizes[name], checkBlockSize(r.BlockSizes[name]))
	}
	if len(r.Devices) > mostDevices {
		f.addFinding("devices", len(r.Devices), fmt.Errorf("must have at most %d entries", mostDevices))
		return
	}
	for _, key := range sortedKeys(r.Devices) {
		f.addFinding("devices", key, matchForm(keyForm, key, "a kind and a name such as 'disk.root'"))
		checkAddress(r.Devices[key], "devices["+key+"]", f)
	}
	checkNUMANodes(r.NUMA, f)
	checkOmitted(r.OmittedDefaults, f)
}

// NoFirmware is the firmware of a record whose guest has no EFI firmware.
const NoFirmware = "none"

// CheckFirmware judges the file name of a firmware build. It returns an error for a path.
func CheckFirmware(name string) error {
	return matchForm(firmwareForm, name, "the file name of a firmware build such as 'OVMF_CODE_4M.fd'")
}

// checkAddress adds findings about addresses that the allocator cannot assign.
func checkAddress(a Address, entry string, f *findings) {
	for _, place := range []struct {
		name, text string
		parse      func(string) error
	}{
		{"pci", a.PCI, checkPCI},
		{"drive", a.Drive, errorOf(address.ParseDrive)},
		{"usb", a.USB, errorOf(address.ParseUSB)},
		{"serial", a.Serial, errorOf(address.ParseSerial)},
		{"ccw", a.CCW, errorOf(address.ParseCCW)},
		{"target", a.Target, errorOf(address.ParseTarget)},
		{"expander", a.Expander, errorOf(address.ParseExpander)},
	} {
		if place.text != "" {
			f.addFinding(entry+"."+place.name, place.text, place.parse(place.text))
		}
	}
	if a.Index != nil {
		f.addFinding(entry+".index", *a.Index, checkRange(*a.Index, 0, address.MaxPorts))
	}
}

func checkPCI(text string) error {
	at, err := address.ParsePCI(text)
	if err == nil && at.Bus > address.MaxPorts {
		return fmt.Errorf("the bus must be from '00' to '%x'", address.MaxPorts)
	}
	return err
}

func errorOf[T any](parse func(string) (T, error)) func(string) error {
	return func(text string) error { _, err := parse(text); return err }
}

// Forms of words. They do not depend on the guest's architecture.
var (
	versionForm  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	uuidForm     = regexp.MustCompile(`^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$`)
	machineForm  = regexp.MustCompile(`^[a-z][A-Za-z0-9._-]{0,63}$`)
	modelForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	firmwareForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	biosDateForm = regexp.MustCompile(`^(0[1-9]|1[0-2])/(0[1-9]|[12][0-9]|3[01])/(19|20)[0-9]{2}$`)
	// Both numbers have one byte.
	biosReleaseForm = regexp.MustCompile(`^(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])$`)
	// The second digit of a unicast address is even.
	macForm = regexp.MustCompile(`^[0-9a-fA-F][02468aceACE]([:-][0-9a-fA-F]{2}){5}$`)
	// Kinds are not listed: a kind of a later version, or a device that this guest does not have, has no effect.
	keyForm = regexp.MustCompile(`^[a-z]+\.[A-Za-z0-9._-]+$`)
)

func matchForm(form *regexp.Regexp, text, like string) error {
	if form.MatchString(text) {
		return nil
	}
	return errors.New("must be " + like)
}

func checkDeviceName(name, like string) error {
	if vm.IsDeviceName(name) {
		return nil
	}
	return errors.New("must be " + like)
}

// checkText returns an error for a text that SMBIOS or XML cannot hold. The guest's owner may choose the text.
func checkText(text string) error {
	if len(text) > longestText {
		return fmt.Errorf("must have at most %d bytes", longestText)
	}
	// libvirt would read another character in place of one that XML cannot have.
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xfffe || r == 0xffff }) {
		return errors.New("must not contain control characters")
	}
	return nil
}

func checkSMBIOSName(name string) error {
	if slices.Contains([]string{"manufacturer", "product", "version", "sku", "family"}, name) {
		return nil
	}
	return errors.New("must be manufacturer, product, version, sku or family")
}

// CheckBIOS judges a string of the BIOS by its name in libvirt's sysinfo/bios. libvirt refuses another form of a date, and QEMU another form of a release.
func CheckBIOS(name, text string) error {
	switch name {
	case "vendor", "version":
		if text == "" {
			return errors.New("must not be empty")
		}
		return checkText(text)
	case "date":
		return matchForm(biosDateForm, text, "a date such as '04/01/2014'")
	case "release":
		return matchForm(biosReleaseForm, text, "a release such as '0.1'")
	}
	return errors.New("the name must be vendor, version, date or release")
}

func checkRange[T int | uint | uint64](n, least, most T) error {
	if n < least || n > most {
		return fmt.Errorf("must be from %d to %d", least, most)
	}
	return nil
}

func sortedKeys[T any](entries map[string]T) []string { return slices.Sorted(maps.Keys(entries)) }
