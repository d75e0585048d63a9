package machines

import (
	stdcmp "cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/test/libvirt"
	"libvirt.org/go/libvirtxml"
)

// exception is a cell that this libvirt cannot define, with the start of what the test prints and what libvirt says.
type exception struct{ needs, says string }

// exceptions of libvirt 9.0 with QEMU 7.2 on a host without encrypted memory. One that is not needed any more fails the test.
var exceptions = map[string]exception{
	"amd64/sev": {"needs host: AMD SEV", "SEV launch security is not supported"},
	"amd64/snp": {"needs libvirt >= 10.5.0: launch security sev-snp", "Invalid value for attribute 'type' in element 'launchSecurity': 'sev-snp'"},
	"amd64/tdx": {"needs libvirt >= 11.6.0: launch security tdx", "Invalid value for attribute 'type' in element 'launchSecurity': 'tdx'"},
}

// newer are elements that libvirt's schema of 9.0 does not have, by cell.
var newer = map[string]exception{
	"amd64/snp": exceptions["amd64/snp"],
	"amd64/tdx": exceptions["amd64/tdx"],
}

// TestDefined gives each golden of host a to libvirt's QEMU driver, and compares what libvirt stored with what was rendered: nothing
// that the guest sees is added, moved or changed.
func TestDefined(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	seen, needed, table := map[string]bool{}, map[string]bool{}, []string{}
	for _, c := range cells(t) {
		if len(c.errs) > 0 {
			continue
		}
		seen[c.name()] = true
		t.Run(c.name(), func(t *testing.T) {
			table = append(table, c.name()+": "+define(t, d, c, needed))
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
	for _, e := range explained {
		if !needed[e.path] {
			t.Errorf("no document differs at '%s' any more", e.path)
		}
	}
	for name := range exceptions {
		if !seen[name] {
			t.Errorf("exception '%s' is not one of the rendered machines", name)
		}
	}
}

// define is 'defined', or what libvirt or the host would need.
func define(t *testing.T, d *libvirt.Daemon, c cell, needed map[string]bool) string {
	t.Helper()
	dom := libvirt.Emulated(c.first.Documents.Domain)
	xml, err := dom.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	schema(t, c.name(), xml)
	stored, err := d.Define(xml)
	known, excepted := exceptions[c.name()]
	switch {
	case excepted && err == nil:
		t.Errorf("libvirt defines it: the exception '%s' is not needed any more", known.needs)
	case excepted && !strings.Contains(err.Error(), known.says):
		t.Errorf("libvirt refuses it for another reason than '%s': %v", known.needs, err)
	case err != nil && !excepted:
		t.Errorf("libvirt refuses it: %v\n%s", err, xml)
	}
	if err != nil {
		return known.needs
	}
	unchanged(t, dom, stored, needed)
	if err := d.Undefine(dom.Name); err != nil {
		t.Error(err)
	}
	return "defined"
}

func schema(t *testing.T, name, xml string) {
	t.Helper()
	err := libvirt.Validate(xml)
	known, excepted := newer[name]
	switch {
	case excepted && err == nil:
		t.Errorf("libvirt's schema allows it: '%s' is not newer any more", known.needs)
	case err != nil && !excepted:
		t.Errorf("libvirt's schema: %v", err)
	}
}

// explained are all the places in which a stored document may differ from the rendered one, each with its reason. None of them is an
// address, a controller or a model.
var explained = []struct{ path, why string }{
	{".CurrentMemory", "the memory at the start, which is all of it"},
	{".CPUTune.VCPUSched", "the host's scheduling of several CPUs, listed for each of them"},
	{".CPUTune.VCPUSched.VCPUs", "the same"},
	{".CPU.Check", "when the host compares the CPU with its own: the start does"},
	{".Devices.Audios", "where sound is heard on the host: nowhere"},
	{".Devices.Channels.Source.UNIX.Mode", "libvirt does not say that it binds the sockets that it chooses"},
	{".Devices.Consoles.Alias", "the console is the serial port, shown a second time with its alias"},
}

// unchanged compares every field of libvirt's types, of the host's part too.
func unchanged(t *testing.T, dom *libvirtxml.Domain, stored string, needed map[string]bool) {
	t.Helper()
	var was, is libvirtxml.Domain
	xml, err := dom.Marshal()
	if err == nil {
		err = was.Unmarshal(xml) // as libvirt's types read it
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := is.Unmarshal(stored); err != nil {
		t.Fatal(err)
	}
	if changes := abi.Changes(dom, &is); len(changes) > 0 {
		t.Errorf("libvirt changed what the guest sees: %q", changes)
	}
	sorted(&was)
	sorted(&is)
	var r reporter
	cmp.Equal(was, is, cmp.Reporter(&r))
	for _, difference := range r.differences {
		path, _, _ := strings.Cut(difference, ":")
		if slices.ContainsFunc(explained, func(e struct{ path, why string }) bool { return e.path == path }) {
			needed[path] = true
			continue
		}
		t.Errorf("libvirt stored something else: %s", difference)
	}
}

// sorted puts devices into one order: libvirt keeps another one than the document, which says nothing once each has its address.
func sorted(dom *libvirtxml.Domain) {
	slices.SortFunc(dom.Devices.Controllers, func(a, b libvirtxml.DomainController) int {
		return stdcmp.Or(strings.Compare(a.Type, b.Type), stdcmp.Compare(*a.Index, *b.Index))
	})
	slices.SortFunc(dom.Devices.Disks, func(a, b libvirtxml.DomainDisk) int { return strings.Compare(a.Alias.Name, b.Alias.Name) })
	slices.SortFunc(dom.Devices.Inputs, func(a, b libvirtxml.DomainInput) int { return strings.Compare(name(a.Alias), name(b.Alias)) })
}

func name(a *libvirtxml.DomainAlias) string {
	if a == nil {
		return ""
	}
	return a.Name
}

// reporter collects differences as 'path: rendered -> stored'.
type reporter struct {
	path        cmp.Path
	differences []string
}

func (r *reporter) PushStep(step cmp.PathStep) { r.path = append(r.path, step) }
func (r *reporter) PopStep()                   { r.path = r.path[:len(r.path)-1] }
func (r *reporter) Report(result cmp.Result) {
	if result.Equal() {
		return
	}
	was, is := r.path.Last().Values()
	var path strings.Builder
	for _, step := range r.path {
		if at, ok := step.(cmp.StructField); ok {
			path.WriteString("." + at.Name())
		}
	}
	r.differences = append(r.differences, fmt.Sprintf("%s: %s -> %s", path.String(), shown(was), shown(is)))
}

func shown(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return "nothing"
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return fmt.Sprintf("%+v", v.Elem())
	}
	return fmt.Sprintf("%+v", v)
}
