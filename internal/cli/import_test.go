package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"libvirt.org/go/libvirtxml"
)

// TestImportKeepsHardware: the VM of an imported domain, with its record, boots with the machine, UUID, MACs and addresses of the domain. Only the names of
// disks and interfaces are new.
func TestImportKeepsHardware(t *testing.T) {
	t.Parallel()
	_, file := write(t, plain)
	ran := call(t, "", "render", "-f", file)
	if ran.err != nil {
		t.Fatal(ran.err, ran.errOut)
	}
	got := call(t, ran.out, "import", "-", "--name", "moved", "-n", "new")
	if got.err != nil || strings.Count(got.out, "kind: GuestHardware") != 1 || !strings.Contains(got.errOut, "elements of domain 'shop_web'") {
		t.Fatalf("%v\n%s%s", got.err, got.out, got.errOut)
	}
	_, moved := write(t, got.out)
	again := call(t, "", "render", "-f", moved)
	if again.err != nil {
		t.Fatal(again.err, again.errOut, got.out)
	}
	before, after := placesOf(t, ran.out), placesOf(t, again.out)
	if diff := cmp.Diff(before, after); diff != "" || len(before) < 10 {
		t.Errorf("places (-before +after):\n%s", diff)
	}
}

// placesOf returns what a guest sees of a domain, without the names of devices: its UUID, machine, MACs, and the addresses with the kinds of devices.
func placesOf(t *testing.T, text string) map[string]string {
	t.Helper()
	var dom libvirtxml.Domain
	if err := dom.Unmarshal(text); err != nil {
		t.Fatal(err, text)
	}
	places := map[string]string{"uuid": dom.UUID, "machine": dom.OS.Type.Machine}
	for _, device := range abi.Devices(&dom) {
		if at := abi.FromLibvirt(*device.Address); at != (record.Address{}) {
			places[device.Kind+" "+at.String()] = device.Model
		}
		if device.Interface != nil {
			places["mac "+device.Interface.MAC.Address] = ""
		}
	}
	return places
}

// foreignDomain is a domain of virt-install that libvirt has defined.
const foreignDomain = `<domain type='kvm'><name>old</name><uuid>0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10</uuid><memory unit='GiB'>1</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os><features><acpi/><apic/></features><cpu mode='custom'><model>Westmere</model></cpu>
<devices><controller type='pci' index='0' model='pcie-root'/>
<controller type='pci' index='1' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/></controller>
<controller type='pci' index='2' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x03' function='0x0'/></controller>
<disk type='file' device='disk'><source file='/images/it&apos;s.img'/><target dev='vda' bus='virtio'/>
<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></disk>
<interface type='bridge'><mac address='52:54:00:11:22:33'/><source bridge='br0'/><model type='virtio'/>
<address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></interface></devices></domain>`

// TestImportOutputs: the manifest has the claims, the record and the VM in the order in which they are created; -o json has the report as well, and -o table
// only the report.
func TestImportOutputs(t *testing.T) {
	t.Parallel()
	args := []string{"import", "-", "--map", "network=br0=vlans/dmz", "--size", "vda=5Gi", "--storage-class", "fast"}
	got := call(t, foreignDomain, args...)
	var kinds []string
	for line := range strings.Lines(got.out) {
		if kind, found := strings.CutPrefix(line, "kind: "); found {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	if diff := cmp.Diff([]string{"PersistentVolumeClaim", "GuestHardware", "VirtualMachine"}, kinds); diff != "" || got.err != nil {
		t.Errorf("%v (-want +got):\n%s\n%s%s", got.err, diff, got.out, got.errOut)
	}
	for _, want := range []string{"networkName: vlans/dmz", "storage: 5Gi", "storageClassName: fast", "claimName: old-vda", "runStrategy: Halted"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("the manifest has no '%s':\n%s", want, got.out)
		}
	}
	const fill = `--image-path='/images/it'\''s.img'`
	if !strings.Contains(strings.ReplaceAll(got.errOut, "\n", " "), fill) {
		t.Errorf("the report does not say how the claim is filled:\n%s", got.errOut)
	}
	document := call(t, foreignDomain, append(args, "-o", "json")...)
	var answer struct {
		Kind   string
		Report struct {
			Verdict  string
			Elements []struct{ Path, Outcome string }
		}
		Objects []map[string]any
	}
	if err := json.Unmarshal([]byte(document.out), &answer); err != nil || answer.Kind != "Import" || len(answer.Objects) != 3 || len(answer.Report.Elements) < 9 {
		t.Errorf("%v %+v\n%s", err, answer, document.errOut)
	}
	table := call(t, foreignDomain, append(args, "-o", "table")...)
	if !strings.HasPrefix(table.out, "ELEMENT") || strings.Contains(table.out, "kind:") || !strings.Contains(table.out, "for the guest: needs restart") {
		t.Errorf("the report:\n%s%s", table.out, table.errOut)
	}
}

// TestImportReport: --report writes a page beside the objects, and refuses a file that exists before it makes anything.
func TestImportReport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "old.html")
	got := call(t, foreignDomain, "import", "-", "--size", "vda=5Gi", "--report", file)
	page, err := os.ReadFile(file)
	if got.err != nil || err != nil || !strings.Contains(got.out, "kind: VirtualMachine") {
		t.Fatalf("%v %v\n%s%s", got.err, err, got.out, got.errOut)
	}
	for _, want := range []string{"<title>Import of old</title>", "virtctl image-upload pvc old-vda", "52:54:00:11:22:33", "devices/interface[0]"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no '%s':\n%s", want, page)
		}
	}
	again := call(t, foreignDomain, "import", "-", "--report", file)
	if cmdutil.ExitStatus(again.err) != 2 || again.out != "" || !strings.Contains(again.err.Error(), "exists already") {
		t.Errorf("the second page: %v\n%s", again.err, again.out)
	}
}

// TestImportWithCatalog: the VM has the instancetype of a folder, of the cluster or of a registry, and boots as it would without.
func TestImportWithCatalog(t *testing.T) {
	without := call(t, foreignDomain, "import", "-")
	folder := folderOf(t, smallInstancetype, linuxPreference)
	cluster := new(apiServer).serve(t, smallInstancetype, linuxPreference)
	repository, flag := newRegistry(t)
	if _, errOut, err := called(t, "catalog", "push", folder, repository+":1.0.0", flag); err != nil {
		t.Fatal(err, errOut)
	}
	for _, source := range [][]string{{folder}, append([]string{"cluster"}, cluster...), {repository + ":1.0.0", flag}} {
		got := call(t, foreignDomain, append([]string{"import", "-", "--catalog"}, source...)...)
		for _, want := range []string{"instancetype:\n    kind: VirtualMachineClusterInstancetype\n    name: small\n"} {
			if got.err != nil || !strings.Contains(got.out, want) {
				t.Errorf("%q: %v\n%s%s", source, got.err, got.out, got.errOut)
			}
		}
		if !strings.Contains(got.errOut, "VirtualMachineClusterInstancetype 'small' is used") || !strings.Contains(got.errOut, "no preference was chosen") {
			t.Errorf("the report does not say what was chosen:\n%s", got.errOut)
		}
		var texts []string
		for _, manifest := range []string{without.out, got.out} {
			_, file := write(t, manifest)
			rendered := call(t, "", "render", "-f", file, "--catalog", folder)
			if rendered.err != nil {
				t.Fatal(rendered.err, rendered.errOut)
			}
			texts = append(texts, rendered.out)
		}
		if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("%q: what boots (-without +with the catalog):\n%s", source, diff)
		}
	}
}

// writable serves an API server that accepts new objects, unless they are of a refused kind. If the kind begins with '!', only the dry run of it succeeds. It
// keeps what was stored, by kind.
func writable(t *testing.T, refused string, forbidden []string, documents ...string) (stored map[string]map[string]any, flags []string) {
	t.Helper()
	refused, failing := strings.CutPrefix(refused, "!")
	stored = map[string]map[string]any{}
	server := &apiServer{forbidden: forbidden, answer: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			t.Error(err)
		}
		kind, _ := object["kind"].(string)
		switch {
		case kind == refused && failing && r.URL.Query().Get("dryRun") == "":
			reply(w, http.StatusInternalServerError, apierrors.NewInternalError(errors.New("the store is away")).Status())
			return true
		case kind == refused && !failing:
			reply(w, http.StatusForbidden, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "old", errors.New("no \x1b[2Jright")).Status())
			return true
		case r.URL.Query().Get("dryRun") == "":
			stored[kind] = object
		}
		reply(w, http.StatusCreated, object)
		return true
	}}
	return stored, server.serve(t, documents...)
}

// TestImportApply: --apply asks the cluster what runs the guests. A record for KubeVirt's guests has only what they keep. Nothing is written if one object is
// refused.
func TestImportApply(t *testing.T) {
	t.Parallel()
	const kubeVirt = "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\n"
	const controller = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: virt-controller, namespace: kubevirt}\n"
	for _, test := range []struct {
		name      string
		documents []string
		forbidden []string
		uuid      any
		warning   string
	}{
		{"Kiln", []string{kubeVirt}, nil, "0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10", ""},
		{"KubeVirt", []string{kubeVirt, controller}, nil, nil, "KubeVirt renders this guest"},
		{"unknown", []string{kubeVirt}, []string{"kubevirts"}, "0d3f3cb0-6a52-4bd5-9f5f-2f7a4e1c9d10", "Warning:"},
	} {
		stored, flags := writable(t, "", test.forbidden, test.documents...)
		page := filepath.Join(t.TempDir(), "old.html")
		got := call(t, foreignDomain, append([]string{"import", "-", "--apply", "--size", "vda=5Gi", "--report", page}, flags...)...)
		want := "PersistentVolumeClaim shop/old-vda: created\nGuestHardware shop/old: created\nVirtualMachine shop/old: created\n"
		if diff := cmp.Diff(want, got.out); diff != "" || got.err != nil || len(stored) != 3 {
			t.Fatalf("%s: %v, stored %v (-want +got):\n%s%s", test.name, got.err, stored, diff, got.errOut)
		}
		hardware := stored["GuestHardware"]["spec"].(map[string]any)["hardware"].(map[string]any)
		if hardware["uuid"] != test.uuid || hardware["machine"] != "pc-q35-7.2" || !strings.Contains(got.errOut, test.warning) {
			t.Errorf("%s: the record has the UUID %v of machine %v\n%s", test.name, hardware["uuid"], hardware["machine"], got.errOut)
		}
		if strings.Contains(got.errOut, "create the objects") || !strings.Contains(got.errOut, "virtctl start old -n shop") {
			t.Errorf("%s: the steps are\n%s", test.name, got.errOut)
		}
		if _, err := os.Stat(page); err != nil {
			t.Error(err)
		}
	}
	stored, flags := writable(t, "VirtualMachine", nil)
	got := call(t, foreignDomain, append([]string{"import", "-", "--apply"}, flags...)...)
	if cmdutil.ExitStatus(got.err) != 1 || got.out != "" || len(stored) > 0 || !strings.Contains(got.errOut, "1 conflict: nothing is written") ||
		!strings.Contains(got.errOut, "VirtualMachine shop/old: ") || strings.Contains(got.errOut, "\x1b") {
		t.Errorf("a refused VM: %v, stored %v\n%s%q", got.err, stored, got.out, got.errOut)
	}
	got = call(t, foreignDomain, append([]string{"import", "-", "--apply", "-o", "json"}, flags...)...)
	var answer struct {
		Kind      string
		Conflicts []struct{ Kind, Name, Reason string }
	}
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || cmdutil.ExitStatus(got.err) != 1 || len(answer.Conflicts) != 1 ||
		answer.Conflicts[0].Kind != "VirtualMachine" || answer.Conflicts[0].Reason == "" {
		t.Errorf("%v %v %+v\n%s", got.err, err, answer, got.out)
	}
	stored, flags = writable(t, "!VirtualMachine", nil)
	got = call(t, foreignDomain, append([]string{"import", "-", "--apply", "--size", "vda=5Gi"}, flags...)...)
	if cmdutil.ExitStatus(got.err) != 2 || len(stored) != 2 || !strings.Contains(got.err.Error(), "2 of 3 objects are there: run the command again") ||
		got.out != "PersistentVolumeClaim shop/old-vda: created\nGuestHardware shop/old: created\n" {
		t.Errorf("an interrupted import: %v, stored %v\n%s%s", got.err, stored, got.out, got.errOut)
	}
	stored, flags = writable(t, "", nil)
	_, file := write(t, plain)
	got = call(t, foreignDomain, append([]string{"import", "-", "-f", file, "--apply", "-o", "json"}, flags...)...)
	if got.err != nil || len(stored) != 1 || stored["GuestHardware"] == nil || !strings.Contains(got.out, `"created": true`) ||
		strings.Contains(got.out, "steps") {
		t.Errorf("the record of a VM: %v, stored %v\n%s%s", got.err, stored, got.out, got.errOut)
	}
	if got := call(t, foreignDomain, "import", "-", "--apply"); cmdutil.ExitStatus(got.err) != 2 || got.out != "" {
		t.Errorf("without a cluster: %v\n%s", got.err, got.out)
	}
}

// TestImportRefuses: what is not a domain of QEMU, and flags that cannot be read, are faults. A file with the name of a domain is not written.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"no such file":             {"import", filepath.Join(t.TempDir(), "none.xml")},
		"another hypervisor":       {"import", fileOf(t, "<domain type='xen'><name>a</name></domain>")},
		"begins with <domain>":     {"import", fileOf(t, "<network/>")},
		"must be network=":         {"import", "-", "--map", "bridge=br0=x"},
		"is no name of":            {"import", "-", "--map", "network=br0=Not_A_Name"},
		"must be DISK=":            {"import", "-", "--size", "vda=many"},
		"names 2 catalogs":         {"import", "-", "--catalog", "a,b"},
		"only one of them":         {"import", "-", "--catalog", "-"},
		"only one of them can":     {"import", "-", "-f", "-"},
		"no instancetype and no":   {"import", "-", "--catalog", fileOf(t, plain)},
		"no argument":              {"import"},
		"is for a VM that is made": {"import", "-", "-f", fileOf(t, plain), "--name", "x"},
		"must have one VM or VMI":  {"import", "-", "-f", fileOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
	} {
		got := call(t, foreignDomain, args...)
		if cmdutil.ExitStatus(got.err) != 2 || got.out != "" || !strings.Contains(got.err.Error()+got.errOut, want) {
			t.Errorf("want '%s' and exit status 2, got %v\n%s%s", want, got.err, got.out, got.errOut)
		}
	}
}

// TestImportFromLibvirt: an address that cannot be reached is a fault, which names the domain and the address without its password.
func TestImportFromLibvirt(t *testing.T) {
	for uri, want := range map[string]string{
		"qemu+unix:///system?socket=/none/libvirt-sock": "domain 'web' of qemu+unix:///system?socket=/none/libvirt-sock: ",
		"qemu+tcp://me:s3cret@127.0.0.1:1/system":       "domain 'web' of qemu+tcp://me:xxxxx@127.0.0.1:1/system: ",
		"other+fax://host/system":                       "unsupported libvirt transport fax",
		"%zz":                                           "the address of libvirt: ",
	} {
		t.Setenv("LIBVIRT_DEFAULT_URI", uri)
		got := call(t, "", "import", "libvirt:web")
		if cmdutil.ExitStatus(got.err) != 2 || got.out != "" || !strings.Contains(got.err.Error(), want) || strings.Contains(got.err.Error(), "s3cret") {
			t.Errorf("%s: %v, want '%s'\n%s", uri, got.err, want, got.out)
		}
	}
}

// fileOf returns the name of a file with a text.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestImportForAVM: with -f only the record of the VM is printed, under the names of the VM.
func TestImportForAVM(t *testing.T) {
	t.Parallel()
	_, file := write(t, plain)
	got := call(t, foreignDomain, "import", "-", "-f", file)
	if got.err != nil || strings.Count(got.out, "kind: ") != 1 || !strings.Contains(got.out, "kind: GuestHardware") || !strings.Contains(got.out, "name: web") ||
		!strings.Contains(got.out, "0000:01:00.0") {
		t.Errorf("%v\n%s%s", got.err, got.out, got.errOut)
	}
}
