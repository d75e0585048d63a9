package domains

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	"github.com/kilnvm/kiln/test/samples"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// undefinable are errors of libvirt 9.0 with QEMU 7.2, on a host that emulates, about domains that other versions or hosts could run. An entry that fits no
// domain any more fails the test. An error that two entries fit fails it, too, because a map has no order to choose by.
var undefinable = map[string]string{
	"does not support machine type":        "needs host: the machine types of another vendor or a newer QEMU",
	"launchSecurity': 'sev-snp'":           "needs libvirt >= 10.5.0: launch security sev-snp",
	"launchSecurity': 'tdx'":               "needs libvirt >= 11.6.0: launch security tdx",
	"SEV launch security is not supported": "needs host: AMD SEV",
	"than specified machine type limit":    "needs QEMU >= 8.1.0: more than 288 vCPUs",
	"unknown panic model 'pvpanic'":        "needs libvirt >= 9.1.0: panic device pvpanic",
}

// changed are words of libvirt 9.0 that it drops, since it does not know them yet.
var changed = map[string]string{
	"hyperv":      "needs libvirt >= 11.0.0: tlbflush direct and extended",
	"display":     "needs libvirt >= 10.2.0: display of a PCI host device",
	"granularity": "needs libvirt >= 10.0.0: discard granularity",
}

// TestEveryAcceptedGuest: libvirt defines every VMI of the recorded answers that admission accepts, and changes nothing of it.
func TestEveryAcceptedGuest(t *testing.T) {
	t.Parallel()
	d := libvirt.Start(t)
	reasons, judged := map[string]int{}, map[string]string{}
	for id, vmi := range acceptedGuests(t) {
		host := backend.Assumed(vmi.Spec.Architecture)
		rendered, errs := render.Domain(render.Machine{VMI: vmi, Defaults: cluster(t).Frontend, Host: host, Bindings: backend.AssumedBindings(vmi)})
		if len(errs) > 0 {
			t.Errorf("%s: %v", id, errs.ToAggregate())
			continue
		}
		dom := libvirt.Emulated(rendered.Documents.Domain)
		xml, err := dom.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if judged[xml] == "" { // recorded VMIs differ in what no domain shows: every fourth document was there before
			stored, err := d.Define(xml)
			judged[xml] = judge(t, id, definition{dom, stored, err})
			if err == nil && d.Undefine(dom.Name) != nil {
				t.Errorf("%s: libvirt keeps it", id)
			}
		}
		reasons[judged[xml]]++
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t.Logf("%5d %s", reasons[reason], reason)
	}
	for _, list := range []map[string]string{undefinable, changed} {
		for _, reason := range list {
			if reasons[reason] == 0 {
				t.Errorf("'%s' is true of no guest", reason)
			}
		}
	}
}

// definition is a domain, and the document that libvirt stored of it or the error why not.
type definition struct {
	dom    *libvirtxml.Domain
	stored string
	err    error
}

// judge is 'defined', or what the guest would need.
func judge(t *testing.T, id string, of definition) string {
	t.Helper()
	if of.err != nil {
		var fit []string
		for says, needs := range undefinable {
			if strings.Contains(of.err.Error(), says) {
				fit = append(fit, needs)
			}
		}
		if len(fit) != 1 {
			t.Errorf("%s: libvirt refuses it, and %d known reasons fit: %v", id, len(fit), of.err)
			return "refused"
		}
		return fit[0]
	}
	dom := of.dom
	var read libvirtxml.Domain
	if err := read.Unmarshal(of.stored); err != nil {
		t.Fatal(err)
	}
	read.OS.Type.Machine = dom.OS.Type.Machine // what the alias stands for
	if abi.Same(dom, &read) {
		return "defined"
	}
	if needs := newer(dom); needs != "" {
		return needs
	}
	t.Errorf("%s: libvirt changed what the guest sees: %q", id, abi.Changes(dom, &read))
	return "changed"
}

// newer names the word that this libvirt does not know.
func newer(dom *libvirtxml.Domain) string {
	if f := dom.Features; f != nil && f.HyperV != nil && f.HyperV.TLBFlush != nil && (f.HyperV.TLBFlush.Direct != nil || f.HyperV.TLBFlush.Extended != nil) {
		return changed["hyperv"]
	}
	if slices.ContainsFunc(dom.Devices.Hostdevs, func(h libvirtxml.DomainHostdev) bool { return h.SubsysPCI != nil && h.SubsysPCI.Display == "on" }) {
		return changed["display"]
	}
	if slices.ContainsFunc(dom.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.BlockIO != nil && d.BlockIO.DiscardGranularity != nil }) {
		return changed["granularity"]
	}
	return ""
}

// acceptedGuests asks the conformance tool, which knows the form of the answers.
func acceptedGuests(t *testing.T) map[string]*v1.VirtualMachineInstance {
	t.Helper()
	shared := samples.Shared(t)
	if shared == "" {
		t.Skip("no recorded answers here: set KILN_SHARED to a folder with conformance/")
	}
	corpus := filepath.Join(shared, "conformance")
	path := filepath.Join(t.TempDir(), "accepted")
	tool := exec.Command("go", "run", "./test/conformance", "-corpus", corpus, "-accepted", path)
	tool.Dir = "../.."
	if out, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	guests := map[string]*v1.VirtualMachineInstance{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			ID  string
			VMI *v1.VirtualMachineInstance
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		guests[line.ID] = line.VMI
	}
	return guests
}
