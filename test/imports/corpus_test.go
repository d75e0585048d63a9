package imports

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/domainimport"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/domain/imported"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// sharedDomains returns the folder with the domains of others, or skips the test.
func sharedDomains(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cmp.Or(os.Getenv("KILN_SHARED"), "../../../shared"), "domains")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no domains of others here: set KILN_SHARED to a folder with domains/")
	}
	return dir
}

// foreign is a domain of another program.
type foreign struct {
	file string
	raw  []byte
}

// readArchives returns the files of all archives in a folder, sorted by name.
func readArchives(t *testing.T, dir string) (all []foreign) {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%s has no archives: %v", dir, err)
	}
	for _, archive := range archives {
		file, err := os.Open(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		for files := tar.NewReader(unzipped); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := io.ReadAll(files); err == nil && header.Typeflag == tar.TypeReg {
				all = append(all, foreign{filepath.Base(header.Name), raw})
			}
		}
	}
	slices.SortFunc(all, func(a, b foreign) int { return cmp.Compare(a.file, b.file) })
	return all
}

// tally counts what became of the domains of one run.
type tally struct {
	supported, refused, otherBoards, undefinable, stable, unstable int
	// named is the number of domains of which the report says that nothing changes.
	named int
	// reasons are the messages of refusals and of libvirt, without numbers and names.
	reasons map[string]int
}

var variable = regexp.MustCompile(`'[^']*'|\b[0-9a-f]{8,}\b|\b[0-9]+\b`)

func (n *tally) add(kind string, err error) {
	n.reasons[kind+": "+variable.ReplaceAllString(err.Error(), "…")]++
}

// TestForeignDomains imports each domain of others of QEMU on the architectures that Kiln has. At most 5 % of them are refused, and the report names each
// element of the others. libvirt then compares the domains that it can define with what their VMs boot: whatever it finds different, the report calls
// different, too.
func TestForeignDomains(t *testing.T) {
	all := readArchives(t, sharedDomains(t))
	d := libvirt.Start(t)
	n := tally{reasons: map[string]int{}}
	for _, f := range all {
		doc, err := imported.Parse(f.raw)
		if err == nil && !isSupported(doc.Domain) {
			continue
		}
		n.supported++
		if err == nil {
			err = checkNamed(doc)
		}
		if err != nil {
			n.refused++
			n.add("refused", err)
			continue
		}
		if board := doc.Domain.OS.Type.Machine; !strings.Contains(board, "q35") && !strings.HasPrefix(board, "virt") && !strings.HasPrefix(board, "s390-ccw") {
			n.otherBoards++
			continue
		}
		n.compare(t, d, f, doc)
	}
	t.Logf("%d domains of supported architectures: %d are refused, %d have another board, and libvirt cannot define %d. Of the rest, libvirt calls %d stable and "+
		"%d not, and the report says of %d that nothing changes",
		n.supported, n.refused, n.otherBoards, n.undefinable, n.stable, n.unstable, n.named)
	for _, reason := range slices.SortedFunc(maps.Keys(n.reasons), func(a, b string) int { return cmp.Compare(n.reasons[b], n.reasons[a]) }) {
		t.Logf("%4d %s", n.reasons[reason], reason[:min(len(reason), 250)])
	}
	if n.supported < 400 || n.refused*20 > n.supported {
		t.Errorf("%d of %d domains are refused, more than 5 %%", n.refused, n.supported)
	}
	if all := n.stable + n.unstable; n.stable*4 < all { // a third; versions of libvirt define some more or less
		t.Errorf("libvirt calls %d of %d domains stable", n.stable, all)
	}
}

// isSupported reports whether a domain is of QEMU, and of an architecture that Kiln has.
func isSupported(dom *libvirtxml.Domain) bool {
	known := dom.OS != nil && dom.OS.Type != nil && slices.Contains([]string{"x86_64", "aarch64", "s390x"}, dom.OS.Type.Arch)
	return known && (dom.Type == "qemu" || dom.Type == "kvm")
}

// checkNamed imports a domain, and returns an error if that fails or if the report does not name an element.
func checkNamed(doc *imported.Document) error {
	made, err := domainimport.Make(context.Background(), &workbench.Bench{Runtime: "pod"}, doc, domainimport.Options{})
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, e := range made.Report.Elements {
		named[e.Path] = true
		if e.Outcome == "" || e.Verdict == "" || e.Outcome != domainimport.Kept && e.Outcome != domainimport.Recorded && len(e.Details) == 0 {
			return fmt.Errorf("element %s has no reason: %+v", e.Path, e)
		}
	}
	counts := map[string]int{}
	for _, child := range doc.Root.Children {
		if child.Name != "devices" && !named[child.Name] {
			return fmt.Errorf("the report does not name %s", child.Name)
		}
		if child.Name != "devices" {
			continue
		}
		for _, device := range child.Children {
			if path := fmt.Sprintf("devices/%s[%d]", device.Name, counts[device.Name]); !named[path] {
				return fmt.Errorf("the report does not name %s", path)
			}
			counts[device.Name]++
		}
	}
	return nil
}

// compare defines a domain, imports what libvirt made of it, and asks libvirt whether the VM boots with the same hardware.
func (n *tally) compare(t *testing.T, d *libvirt.Daemon, f foreign, doc *imported.Document) {
	t.Helper()
	given := doc.Domain
	given.Type, given.Devices.Emulator, given.Name = "qemu", "", "imported"
	given.SecLabel, given.UUID = nil, cmp.Or(given.UUID, "5a2c7d4e-13f6-4c2b-9e0a-7b8d3f1c6a90")
	if given.CPU != nil && given.CPU.Mode == "host-passthrough" { // only KVM has it
		given.CPU.Mode, given.CPU.Migratable, given.CPU.Check = "maximum", "", ""
	}
	text, err := given.Marshal()
	if err != nil {
		t.Fatal(f.file, err)
	}
	defined, err := d.Define(text)
	if err != nil {
		n.undefinable++
		n.add("undefinable", err)
		return
	}
	defer func() {
		if err := d.Undefine("imported"); err != nil {
			t.Error(f.file, err)
		}
	}()
	if doc, err = imported.Parse([]byte(defined)); err != nil {
		t.Fatal(f.file, err)
	}
	made, err := domainimport.Make(t.Context(), &workbench.Bench{Runtime: "pod"}, doc, domainimport.Options{})
	if err != nil {
		t.Error(f.file, err)
		return
	}
	if made.Report.Verdict == record.Compatible {
		n.named++
	}
	if err = sameHardware(d, writeDefaults(doc.Domain, made.Next), made.Next); err == nil {
		n.stable++
		return
	}
	n.unstable++
	n.add("libvirt", err)
	if made.Report.Verdict == record.Compatible {
		t.Errorf("%s: the report names no difference, and libvirt does: %v", f.file, err)
	}
}

// writeDefaults returns a domain in which the defaults are written as the next boot has them: libvirt's check compares texts, and a default is to the guest
// what it stands for. libvirt: "CPU model and topology", "Time keeping", "SMBIOS System Information" and "Virtio transitional devices".
func writeDefaults(given, next *libvirtxml.Domain) *libvirtxml.Domain {
	dom := *given
	if dom.CPU != nil || next.CPU != nil {
		dom.CPU = writeCPUDefaults(dom.CPU, next.CPU, int(dom.VCPU.Value))
	}
	if dom.Clock != nil && next.Clock != nil {
		clock := *dom.Clock
		clock.Timer = slices.Clone(clock.Timer)
		for i := range clock.Timer {
			present := slices.ContainsFunc(next.Clock.Timer, func(t libvirtxml.DomainTimer) bool { return t.Name == clock.Timer[i].Name && t.Present == "yes" })
			if clock.Timer[i].Present == "" && present {
				clock.Timer[i].Present = "yes"
			}
		}
		dom.Clock = &clock
	}
	if dom.OS != nil && dom.OS.SMBios != nil && dom.OS.SMBios.Mode == "emulate" {
		os := *dom.OS
		os.SMBios, dom.OS = nil, &os
	}
	devices := *dom.Devices
	dom.Devices = &devices
	devices.Disks, devices.Controllers, devices.RNGs = slices.Clone(devices.Disks), slices.Clone(devices.Controllers), slices.Clone(devices.RNGs)
	devices.Interfaces = slices.Clone(devices.Interfaces)
	if devices.MemBalloon != nil {
		balloon := *devices.MemBalloon
		devices.MemBalloon = &balloon
	}
	if dom.OS.Type.Arch == "s390x" {
		writeChannelDefaults(&devices)
	}
	// A console of a serial port is a second name for it. onThisHost leaves it out, too.
	ofSerial := func(c libvirtxml.DomainConsole) bool { return c.Target != nil && c.Target.Type == "serial" }
	devices.Consoles = slices.DeleteFunc(slices.Clone(devices.Consoles), ofSerial)
	writeModels(&devices, next)
	renameTargets(&devices, next.Devices)
	orderControllers(&devices, next.Devices)
	return &dom
}

// writeCPUDefaults writes the topology of one core in each socket. The CPU of next may disable a feature that its model lacks already.
func writeCPUDefaults(given, next *libvirtxml.DomainCPU, cpus int) *libvirtxml.DomainCPU {
	cpu := libvirtxml.DomainCPU{}
	if given != nil {
		cpu = *given
	}
	if cpu.Topology == nil {
		cpu.Topology = &libvirtxml.DomainCPUTopology{Sockets: cpus, Cores: 1, Threads: 1}
	}
	if next != nil && len(cpu.Features) == 0 && len(next.Features) == 1 && next.Features[0].Name == "mpx" && next.Features[0].Policy == "disable" {
		cpu.Features = next.Features
	}
	return &cpu
}

// writeChannelDefaults writes what each guest of s390x has: the model of its virtio disks, a PCI bus without devices, and no USB. QEMU makes a sclpconsole
// both of a console of type sclp and of a serial port of type sclp-serial.
func writeChannelDefaults(devices *libvirtxml.DomainDeviceList) {
	if consoles := devices.Consoles; len(devices.Serials) == 0 && len(consoles) > 0 && consoles[0].Target != nil && consoles[0].Target.Type == "sclp" {
		devices.Serials = []libvirtxml.DomainSerial{{Source: consoles[0].Source, Target: frontend.BoardOf("s390x").Serial}}
		devices.Consoles = consoles[1:]
	}
	for i := range devices.Disks {
		if devices.Disks[i].Target.Bus == "virtio" {
			devices.Disks[i].Model = cmp.Or(devices.Disks[i].Model, "virtio")
		}
	}
	for kind, model := range map[string]string{"pci": "pci-root", "usb": "none"} {
		if !slices.ContainsFunc(devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == kind }) {
			devices.Controllers = append(devices.Controllers, libvirtxml.DomainController{Type: kind, Index: new(uint), Model: model})
		}
	}
}

// writeModels writes the model of virtio devices at PCIe ports: there, QEMU leaves out virtio 0.9 by itself.
func writeModels(devices *libvirtxml.DomainDeviceList, next *libvirtxml.Domain) {
	modern := map[string]bool{}
	for _, d := range abi.Devices(next) {
		if address := *d.Address; d.Model == "virtio-non-transitional" && address != nil && address.PCI != nil && *address.PCI.Bus > 0 {
			modern[abi.FromLibvirt(address).PCI] = true
		}
	}
	for _, d := range abi.Devices(&libvirtxml.Domain{Devices: devices}) {
		if d.Address == nil || !modern[abi.FromLibvirt(*d.Address).PCI] || !slices.Contains([]string{"", "virtio", "virtio-scsi"}, d.Model) {
			continue
		}
		const model = "virtio-non-transitional"
		switch e := d.Element.(type) {
		case *libvirtxml.DomainDisk:
			e.Model = model
		case *libvirtxml.DomainController:
			e.Model = model
		case *libvirtxml.DomainInterface:
			e.Model = &libvirtxml.DomainInterfaceModel{Type: model}
		case *libvirtxml.DomainRNG:
			e.Model = model
		case *libvirtxml.DomainMemBalloon:
			e.Model = model
		}
	}
}

// renameTargets gives virtio disks the target names of the disks at their addresses: the names are libvirt's, and the guest does not see them.
func renameTargets(devices, next *libvirtxml.DomainDeviceList) {
	names := map[record.Address]string{}
	for _, d := range next.Disks {
		names[abi.FromLibvirt(d.Address)] = d.Target.Dev
	}
	for i := range devices.Disks {
		d := &devices.Disks[i]
		if name := names[abi.FromLibvirt(d.Address)]; name != "" && d.Target.Bus == "virtio" {
			d.Target = &libvirtxml.DomainDiskTarget{Dev: name, Bus: d.Target.Bus}
		}
	}
}

// orderControllers sorts controllers into the order of the next boot: libvirt compares lists, and the guest does not see the order.
func orderControllers(devices, next *libvirtxml.DomainDeviceList) {
	place := map[string]int{}
	for i, c := range next.Controllers {
		place[record.ControllerKey(c.Type, *c.Index)] = i
	}
	slices.SortStableFunc(devices.Controllers, func(a, b libvirtxml.DomainController) int {
		return cmp.Compare(place[record.ControllerKey(a.Type, *a.Index)], place[record.ControllerKey(b.Type, *b.Index)])
	})
}

// sameHardware returns the difference that libvirt's own check (virDomainDefCheckABIStability) finds between two domains. libvirt makes it when metadata of a
// snapshot are replaced.
func sameHardware(d *libvirt.Daemon, before, after *libvirtxml.Domain) error {
	next := *onThisHost(after, nil, "")
	next.Name = "imported"
	if next.CPU != nil && next.CPU.Mode == "host-passthrough" {
		cpu := *next.CPU
		cpu.Mode, cpu.Migratable, next.CPU = "maximum", "", &cpu // as the domain was defined, because only KVM has it
	}
	text, err := next.Marshal()
	if err != nil {
		return err
	}
	given, err := before.Marshal()
	if err != nil {
		return err
	}
	client, err := d.Connect()
	if err != nil {
		return err
	}
	defer client.Disconnect()
	dom, err := client.DomainLookupByName("imported")
	if err != nil {
		return err
	}
	snapshot := func(domain string) error {
		xml := "<domainsnapshot><name>s</name><state>shutoff</state><creationTime>1</creationTime>" + domain + "</domainsnapshot>"
		_, err := client.DomainSnapshotCreateXML(dom, xml, uint32(rpc.DomainSnapshotCreateRedefine))
		return err
	}
	if err := snapshot(given); err != nil {
		return fmt.Errorf("the domain itself: %w", err)
	}
	err = snapshot(text)
	found, lookup := client.DomainSnapshotLookupByName(dom, "s", 0)
	if lookup == nil {
		lookup = client.DomainSnapshotDelete(found, rpc.DomainSnapshotDeleteMetadataOnly)
	}
	return errors.Join(err, lookup)
}
