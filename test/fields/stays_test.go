package fields

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/golden"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// staysDocument is what 'make golden' writes.
const staysDocument = "../../docs/explanation/what-stays.md"

const staysHeading = `# What stays, and what does not

A guest finds the same hardware at every boot. This page says for each element of its libvirt domain what keeps the element:

- *recorded*: the first boot writes it into the [GuestHardware](../reference/kinds.md), and later boots render it from there, whatever the defaults have
  become. The table names the field of the record.
- *derived*: each boot renders it again from the VM's spec, the revisions to which the VM is [pinned](pins.md), and rules of Kiln. The stored domains of
  ` + "`test/corpus`" + ` fail if such a rule changes.
- *the host's*: it belongs to one start. The guest does not see it, or sees something of the host.

KubeVirt's configuration and profiles change no VM that exists: a VM is pinned to them. What libvirt and QEMU add by themselves follows from the versioned
machine type, which is recorded.

A part of the record that is absent has never been recorded. A later boot records it then. ` + "`firmware: none`" + ` means that the guest has no EFI firmware.
If earlier boots may have had another CPU, condition ` + "`CPUFirstSeen`" + ` of the GuestHardware says it.

A guest that another program made and that was [imported](../how-to/import.md) may lack what Kiln gives to each guest, such as the channel of the guest agent.
Its record names these in ` + "`omittedDefaults`" + `. Later boots do not add them, unless the spec asks for them.

Other things stay outside the domain: the content of disks, of EFI variables and of the TPM. Time does not stay, nor the speed of the host, the kernel's
mitigations, microcode, and the version of the firmware build. libvirt has a host-model for amd64, and on mainframes for s390x. It has none for arm64: there the
CPU is the node's, a new VM gets a warning, and a boot on another node may show the guest another CPU.

The table is written by ` + "`make golden`" + ` and is compared with the domains of the sample guests in ` + "`test/fields`" + `: each element is in one row.
A path stands for all that is below it, and the row with the longest path counts.

| elements | what keeps them | how, and when they change |
|---|---|---|
`

// moreGuests have elements that no field of the API shows alone.
var moreGuests = []string{
	`{architecture: amd64, domain: {cpu: {model: host-model, sockets: 300}, memory: {guest: 2Ti}}}`,
	`{architecture: s390x, domain: {cpu: {model: host-model, cores: 2}, memory: {guest: 1Gi}}}`,
}

// renderedElements returns the elements of the domains of all samples: those that the guest sees, and all. The hosts have names and CPUs.
func renderedElements(t *testing.T) (seen, all map[string]bool) {
	t.Helper()
	samples := guests(t)
	for _, text := range moreGuests {
		sample := Guest{Name: text}
		sample.VMI.Namespace, sample.VMI.Name, sample.VMI.UID = "default", "more", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
		if err := yaml.UnmarshalStrict([]byte(text), &sample.VMI.Spec); err != nil {
			t.Fatal(err)
		}
		sample.VMI.Status.TopologyHints = &v1.TopologyHints{TSCFrequency: new(int64(2_400_000_000))}
		samples = append(samples, sample)
	}
	seen, all = map[string]bool{}, map[string]bool{}
	for _, sample := range samples {
		admitted := admittedOnly(&sample.VMI, generous())
		if len(admitted.refused) > 0 {
			t.Fatalf("%s: %v", sample.Name, admitted.refused.ToAggregate())
		}
		vmi := admitted.explicit
		m := render.Machine{VMI: vmi, Defaults: generous().Frontend, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(vmi)}
		m.Host.NodeName, m.Defaults.DeflateOnOOM = "rack1", true
		m.Host.CPUs = map[string]v1alpha1.ReportedCPU{"amd64": {Model: "EPYC-Rome", Vendor: "AMD", Features: []string{"avx2"}}, "s390x": {Model: "gen15a-base"}}
		made, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", sample.Name, errs.ToAggregate())
		}
		ofGuest, ofDomain := outcome{elements: map[string][]string{}}, outcome{elements: map[string][]string{}}
		for o, dom := range map[*outcome]*libvirtxml.Domain{&ofGuest: abi.Project(made.Frontend), &ofDomain: made.Documents.Domain} {
			text, err := dom.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			o.addElements(text)
		}
		for element, values := range ofDomain.elements {
			// An element that only groups others says nothing by itself.
			if !strings.Contains(element, "@") && !slices.ContainsFunc(values, func(value string) bool { return value != "" }) {
				continue
			}
			// Another value in the projection stands for sources, which libvirtxml cannot leave out.
			all[element], seen[element] = true, seen[element] || slices.Equal(values, ofGuest.elements[element])
		}
	}
	return seen, all
}

// TestWhatStays: each element that a domain has is in one row of the page, each row is of some element, and what the page calls the host's is not what a guest
// sees of its hardware.
func TestWhatStays(t *testing.T) {
	seen, all := renderedElements(t)
	used, guests := make([]int, len(elementRows)), make([]int, len(elementRows))
	for _, element := range slices.Sorted(maps.Keys(all)) {
		row, err := rowOf(element)
		if err != nil {
			t.Error(err)
			continue
		}
		used[row]++
		if seen[element] {
			guests[row]++
			if elementRows[row].kept == ofHost {
				t.Errorf("the guest sees '%s', which the page calls the host's", element)
			}
		}
	}
	text := staysHeading
	for i, row := range elementRows {
		if used[i] == 0 {
			t.Errorf("no domain has an element of the row '%s'", row.paths)
		}
		if guests[i] == 0 && row.kept == derived {
			t.Errorf("no guest sees an element of the row '%s'", row.paths)
		}
		text += "| `" + strings.Join(strings.Fields(row.paths), "`, `") + "` | " + string(row.kept) + " | " + row.why + " |\n"
	}
	if t.Failed() {
		return
	}
	golden.Compare(t, staysDocument, text)
}
