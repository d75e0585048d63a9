package cli

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"libvirt.org/go/libvirtxml"
)

// guarded has a disk whose volume is encrypted, a card that is made for it, and an interface with a filter. Beside it lies a Secret that is not to
// be printed.
const guarded = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        devices:
          disks: [{name: root, disk: {bus: virtio}}]
          interfaces: [{name: lan, bridge: {}}]
          gpus: [{name: card, deviceName: example.com/card}]
      networks: [{name: lan, multus: {networkName: lan}}]
      volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]
---
apiVersion: kilnvm.io/v1alpha1
kind: HostProfile
metadata: {name: guard}
spec: {security: {nwFilter: AntiSpoofing}}
---
apiVersion: v1
kind: Secret
metadata: {name: root, namespace: shop}
stringData: {passphrase: ` + canary + `}
`

const canary = "hunter2-is-a-secret"

const given = `
volumes: {root: {path: /dev/vg/root, format: raw, block: true, encrypted: true}}
hostDevs: {card: {type: mdev, parent: pci_0000_06_00_0, mediatedType: example-1, address: 0d9c2f0e-0000-4000-8000-000000000001}}
`

// file writes one file of its own.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wellFormed counts the roots of a text, which is one XML document if there is one.
func wellFormed(t *testing.T, text string) (roots []string) {
	t.Helper()
	depth := 0
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		switch token, err := decoder.Token(); token := token.(type) {
		case xml.StartElement:
			if depth++; depth == 1 {
				roots = append(roots, token.Name.Local)
			}
		case xml.EndElement:
			depth--
		default:
			if errors.Is(err, io.EOF) {
				return roots
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
}

// TestSideDocuments: secrets, filters and node devices in the order of libvirt, before the domain that names them.
func TestSideDocuments(t *testing.T) {
	t.Parallel()
	vm, bindings := file(t, "vm.yaml", guarded), file(t, "bindings.yaml", given)
	got := call(t, "", "render", "-f", vm, "--bindings", bindings, "--documents", "-o", "json")
	var packed struct {
		Object, Stage, Domain string
		Documents             []struct{ Kind, Name, XML string }
	}
	if err := json.Unmarshal(item(t, got), &packed); err != nil || got.err != nil {
		t.Fatal(err, got.err, got.errOut)
	}
	if strings.Contains(got.out, `\u003c`) || !strings.Contains(got.out, "<domain ") {
		t.Errorf("XML in JSON is not for people:\n%s", got.out)
	}
	var kinds []string
	for _, d := range packed.Documents {
		if kinds = append(kinds, d.Kind); d.Name == "" {
			t.Errorf("%s without a name", d.Kind)
		}
	}
	if diff := cmp.Diff([]string{"secret", "nwfilter", "nodedev"}, kinds); diff != "" || packed.Stage != "backend" {
		t.Fatalf("stage %s, kinds of documents (-want +got):\n%s", packed.Stage, diff)
	}
	var secret libvirtxml.Secret
	var filter libvirtxml.NWFilter
	var device libvirtxml.NodeDevice
	if err := errors.Join(
		secret.Unmarshal(packed.Documents[0].XML),
		filter.Unmarshal(packed.Documents[1].XML), device.Unmarshal(packed.Documents[2].XML)); err != nil {
		t.Fatal(err)
	}
	const held = "<secret ephemeral=\"yes\" private=\"yes\">\n  <uuid>%[1]s</uuid>\n" +
		"  <usage type=\"volume\">\n    <volume>kiln-%[1]s</volume>\n  </usage>\n</secret>"
	if diff := cmp.Diff(fmt.Sprintf(held, secret.UUID), packed.Documents[0].XML); diff != "" || strings.Contains(got.out+got.errOut, canary) {
		t.Errorf("the document of a secret holds no value, and a value is printed nowhere (-want +got):\n%s", diff)
	}
	if packed.Documents[0].Name != "luks/root" || device.Parent != "pci_0000_06_00_0" || device.Capability.MDev.UUID != packed.Documents[2].Name {
		t.Errorf("names: %+v", packed.Documents)
	}
	for what, name := range map[string]string{"secret": secret.UUID, "filter": filter.Name, "device": packed.Documents[2].Name} {
		if !strings.Contains(packed.Domain, name) {
			t.Errorf("the domain does not name its %s '%s':\n%s", what, name, packed.Domain)
		}
	}
	if without := call(t, "", "render", "-f", vm, "--bindings", bindings); without.out != packed.Domain+"\n" {
		t.Errorf("without --documents the domain alone: %v\n%s", without.err, without.out)
	}
}

// TestSeveralDocumentsAreOne: what is printed is an XML document, however many it is made of.
func TestSeveralDocumentsAreOne(t *testing.T) {
	t.Parallel()
	one := file(t, "one.yaml", plain)
	two := file(t, "two.yaml", plain+"---\n"+strings.Replace(plain, "name: web", "name: other", 1))
	vm, bindings := file(t, "vm.yaml", guarded), file(t, "bindings.yaml", given)
	for _, test := range []struct {
		why, root string
		kinds     []string
		args      []string
	}{
		{"one domain", "domain", nil, []string{"-f", vm}},
		{"two guests", "documents", []string{"domain", "domain"}, []string{"-f", two}},
		{"two frontends", "documents", []string{"domain", "domain"}, []string{"-f", two, "--stage", "frontend"}},
		{"one domain that needs no other document", "documents", []string{"domain"}, []string{"-f", one, "--documents"}},
		{"no side documents", "documents", []string{"domain", "domain"}, []string{"-f", two, "--documents"}},
		{"side documents", "documents", []string{"secret", "nwfilter", "nodedev", "domain"}, []string{"-f", vm, "--bindings", bindings, "--documents"}},
	} {
		got := call(t, "", append([]string{"render"}, test.args...)...)
		if roots := wellFormed(t, got.out); got.err != nil || !slices.Equal(roots, []string{test.root}) {
			t.Errorf("%s: roots %q, want one '%s': %v", test.why, roots, test.root, got.err)
		}
		var bundle struct {
			Documents []struct {
				Object string `xml:"object,attr"`
				Kind   string `xml:"kind,attr"`
				XML    string `xml:",innerxml"`
			} `xml:"document"`
		}
		if err := xml.Unmarshal([]byte(got.out), &bundle); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, d := range bundle.Documents {
			kinds = append(kinds, d.Kind)
			if roots := wellFormed(t, d.XML); len(roots) != 1 || !strings.HasPrefix(d.Object, "VirtualMachine shop/") {
				t.Errorf("%s: %s of '%s' has roots %q", test.why, d.Kind, d.Object, roots)
			}
		}
		if diff := cmp.Diff(test.kinds, kinds); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}

// TestOutputFolder: a file each, which nothing that an object is named leads out of.
func TestOutputFolder(t *testing.T) {
	t.Parallel()
	vm, bindings, out := file(t, "vm.yaml", guarded), file(t, "bindings.yaml", given), filepath.Join(t.TempDir(), "out")
	for range 2 { // the second run writes over the first
		got := call(t, "", "render", "-f", vm, "--bindings", bindings, "--documents", "--output-dir", out)
		if got.err != nil || got.out != "" {
			t.Fatalf("%v\n%s%s", got.err, got.errOut, got.out)
		}
	}
	files, err := filepath.Glob(filepath.Join(out, "shop", "web", "*.xml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v: want four files, got %q", err, files)
	}
	for i, prefix := range []string{"domain.xml", "nodedev-0d9c2f0e-0000-4000-8000-000000000001.xml", "nwfilter-kiln-", "secret-luks-root.xml"} {
		text, err := os.ReadFile(files[i])
		if err != nil || !strings.HasPrefix(filepath.Base(files[i]), prefix) || len(wellFormed(t, string(text))) != 1 {
			t.Errorf("%s: %v, want %s", files[i], err, prefix)
		}
	}
	plain := call(t, "", "render", "-f", vm, "--bindings", bindings)
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != plain.out {
		t.Errorf("%v: the file is not what is printed:\n%s", err, text)
	}
	outside := filepath.Join(filepath.Dir(out), "outside")
	hostile := file(t, "vm.yaml", strings.Replace(strings.Replace(guarded, "name: web", "name: outside", 1), "namespace: shop", "namespace: ..", 1))
	call(t, "", "render", "-f", hostile, "--output-dir", out)
	if _, err := os.Stat(outside); err == nil {
		t.Error("a namespace '..' leads out of the folder")
	}
}

// TestFrontend: stage 2 alone is what the guest sees, with every address, and nothing of a host.
func TestFrontend(t *testing.T) {
	t.Parallel()
	vm := file(t, "vm.yaml", plain)
	front, back := call(t, "", "render", "-f", vm, "--stage", "frontend"), call(t, "", "render", "-f", vm)
	var seen, whole libvirtxml.Domain
	if err := errors.Join(seen.Unmarshal(front.out), whole.Unmarshal(back.out), front.err, back.err); err != nil {
		t.Fatal(err, front.errOut)
	}
	if seen.Type != "" || seen.Devices.Emulator != "" || strings.Contains(front.out, "<source file=") || strings.Contains(front.out, "/var/lib/kiln") {
		t.Errorf("the frontend names the host's part:\n%s", front.out)
	}
	if diff := cmp.Diff(whole.Devices.Disks[0].Address, seen.Devices.Disks[0].Address); diff != "" ||
		seen.Devices.Disks[0].Address == nil || seen.UUID != whole.UUID {
		t.Errorf("the guest sees what the domain has (-domain +frontend):\n%s", diff)
	}
	host := file(t, "host.yaml", hostKind+"{architecture: amd64, virtTypes: [kvm], machines: {amd64: {q35: pc-q35-9.2, pc-q35-9.2: pc-q35-9.2}}}")
	if got := call(t, "", "render", "-f", vm, "--host", host); cmdutil.ExitStatus(got.err) != 1 {
		t.Errorf("a host without QEMU starts nothing: %v", got.err)
	}
	if got := call(t, "", "render", "-f", vm, "--host", host, "--stage", "frontend"); got.err != nil || !strings.Contains(got.out, "pc-q35-9.2") {
		t.Errorf("but is no reason to see less of what the guest would see: %v\n%s", got.err, got.errOut)
	}
	for _, args := range [][]string{{"--stage", "fronted"}, {"--stage", "frontend", "--documents"}, {"--output-dir", "x", "-o", "json"}} {
		if got := call(t, "", append([]string{"render", "-f", vm}, args...)...); cmdutil.ExitStatus(got.err) != 2 || got.out != "" {
			t.Errorf("%q: want exit status 2, got %v", args, got.err)
		}
	}
}

// TestRenderNamesTheField: if a host refuses a VM or a VMI, the cause has the path and the line of its manifest.
func TestRenderNamesTheField(t *testing.T) {
	t.Parallel()
	host := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(host, []byte(hostKind+"{architecture: amd64, virtTypes: [kvm], emulators: {amd64: /usr/bin/qemu-system-x86_64}, "+
		"machines: {amd64: {q35: pc-q35-9.0, pc-q35-9.0: pc-q35-9.0}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const domain = "domain:\n  firmware: {bootloader: {efi: {secureBoot: true}}}\n  features: {smm: {enabled: true}}\n  memory: {guest: 1Gi}\n  devices: {}\n"
	under := func(text string, depth int) string {
		indent := strings.Repeat("  ", depth)
		return indent + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+indent) + "\n"
	}
	for manifest, want := range map[string]string{
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: w}\nspec:\n  runStrategy: Halted\n  template:\n    spec:\n" + under(domain, 3)://
		"spec.template.spec.domain.firmware.bootloader.efi: ",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: w}\nspec:\n" + under(domain, 1)://
		"  spec.domain.firmware.bootloader.efi: ",
	} {
		_, file := write(t, manifest)
		got := call(t, "", "render", "-f", file, "--host", host)
		if got.err == nil || !strings.Contains(got.errOut, want) || !strings.Contains(got.errOut, "firmware: {bootloader") {
			t.Errorf("%v, want '%s' with its line:\n%s", got.err, want, got.errOut)
		}
	}
}
