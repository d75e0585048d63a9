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
	t.Logf("%d domains of supported architectures: %d are refused, %d have another board, and libvirt cannot define %d. Of the rest %d are stable and %d are not",
		n.supported, n.refused, n.otherBoards, n.undefinable, n.stable, n.unstable)
	for _, reason := range slices.SortedFunc(maps.Keys(n.reasons), func(a, b string) int { return cmp.Compare(n.reasons[b], n.reasons[a]) }) {
		t.Logf("%4d %s", n.reasons[reason], reason[:min(len(reason), 250)])
	}
	if n.supported < 400 || n.refused*20 > n.supported {
		t.Errorf("%d of %d domains are refused, more than 5 %%", n.refused, n.supported)
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
	if err = sameHardware(d, defined, made.Next); err == nil {
		n.stable++
		return
	}
	n.unstable++
	n.add("libvirt", err)
	if made.Report.Verdict == record.Compatible {
		t.Errorf("%s: the report names no difference, and libvirt does: %v", f.file, err)
	}
}

// sameHardware returns the difference that libvirt's own check (virDomainDefCheckABIStability) finds between two domains. libvirt makes it when metadata of a
// snapshot are replaced.
func sameHardware(d *libvirt.Daemon, before string, after *libvirtxml.Domain) error {
	next := *onThisHost(after, nil, "")
	next.Name = "imported"
	text, err := next.Marshal()
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
	if err := snapshot(before); err != nil {
		return fmt.Errorf("the domain itself: %w", err)
	}
	err = snapshot(text)
	found, lookup := client.DomainSnapshotLookupByName(dom, "s", 0)
	if lookup == nil {
		lookup = client.DomainSnapshotDelete(found, rpc.DomainSnapshotDeleteMetadataOnly)
	}
	return errors.Join(err, lookup)
}
