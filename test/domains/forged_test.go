package domains

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/libvirt"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

const (
	// forgeries is the number of forged records. forgeSeed is where their random numbers start: each run forges the same records.
	forgeries, forgeSeed = 10_000, 44
	// validated is the number of domains that are compared with libvirt's schema.
	validated = 200
	// mostText bounds an error, in bytes.
	mostText = 8 << 10
)

// forgedGuests have, together, each field that a record can have.
var forgedGuests = map[string]string{
	"efi": `{architecture: amd64, domain: {cpu: {model: host-model, cores: 2, maxSockets: 4, features: [{name: vmx, policy: disable}]}, memory: {guest: 1Gi},
		firmware: {bootloader: {efi: {secureBoot: false}}}, devices: {tpm: {}, rng: {}, autoattachVSOCK: true, inputs: [{name: t, type: tablet, bus: usb}],
		disks: [{name: root, disk: {bus: virtio}, blockSize: {matchVolume: {}}}, {name: b, disk: {bus: sata}}, {name: c, disk: {bus: scsi}}],
		interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}],
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}, {name: c, emptyDisk: {capacity: 1Gi}}]}`,
	"bios": `{architecture: amd64, domain: {cpu: {model: EPYC-Rome, cores: 2, features: [{name: x2apic}]}, memory: {guest: 2Ti, maxGuest: 4Ti},
		devices: {clientPassthrough: {}, disks: [{name: root, disk: {bus: usb}}, {name: cd, cdrom: {bus: sata}, bootOrder: 1}]}},
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: cd, emptyDisk: {capacity: 1Gi}}]}`,
	"numa": `{architecture: amd64, domain: {cpu: {model: host-passthrough, cores: 4, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}},
		memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, devices: {disks: [{name: root, disk: {bus: virtio}}]}},
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}`,
	"arm": `{architecture: arm64, domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {
		disks: [{name: root, disk: {bus: virtio}}, {name: b, disk: {bus: scsi}}]}},
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}`,
	"mainframe": `{architecture: s390x, domain: {cpu: {model: host-model, cores: 2}, memory: {guest: 1Gi},
		devices: {rng: {}, disks: [{name: root, disk: {bus: virtio}}]}},
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}`,
}

// forgedMachines are those guests on assumed hosts with names, CPUs and versioned machines. They are sorted by their names.
func forgedMachines(t *testing.T) (machines []render.Machine) {
	t.Helper()
	c := config.Default()
	c.Limits.Gates = config.AllGates()
	for _, name := range slices.Sorted(maps.Keys(forgedGuests)) {
		vmi := plain(name)
		vmi.Spec = v1.VirtualMachineInstanceSpec{}
		if err := yaml.UnmarshalStrict([]byte(forgedGuests[name]), &vmi.Spec); err != nil {
			t.Fatal(err)
		}
		explicit := identified(t, vmi, c)
		m := render.Machine{VMI: explicit, Defaults: c.Frontend, Host: backend.Assumed(vmi.Spec.Architecture), Bindings: backend.AssumedBindings(explicit)}
		m.Host.NodeName = "rack1"
		m.Host.Machines = map[string]map[string]string{
			"amd64": {"q35": "pc-q35-7.2", "pc-q35-7.2": ""}, "arm64": {"virt": "virt-7.2", "virt-7.2": ""},
			"s390x": {"s390-ccw-virtio": "s390-ccw-virtio-7.2", "s390-ccw-virtio-7.2": ""},
		}
		m.Host.CPUs = map[string]v1alpha1.ReportedCPU{
			"amd64": {Model: "EPYC-Rome", Vendor: "AMD", Features: []string{"aes", "avx2", "svm", "x2apic"}, DisabledFeatures: []string{"xsaves"}},
			"s390x": {Model: "gen15a-base", Features: []string{"aen", "vx"}},
		}
		machines = append(machines, m)
	}
	return machines
}

// forger changes records as no boot does. Each change is legal JSON.
type forger struct {
	*rand.Rand
	// donors are values of all records: a value in the place of another is more often accepted than nonsense.
	donors []any
}

// nonsense are texts and numbers that some reader of records, XML or QEMU's options may take for more than a text or a number.
var nonsense = []any{
	"", " ", "a<b>&\"'", "</domain><domain>", "<![CDATA[x", "-->", "\u0000", "\t\r\n", "\ufffe", "a,accel=tcg", "../../etc/passwd", "none",
	"host-model", "host-passthrough", "latest", "-1", "0", "4294967295", "18446744073709551616", "0-4000000000", "ff:1f.7", "0000:ff:1f.7", "0000:00:00.0",
	"0000:01:00.0", "0:0:0:0", "vdzzzzzzzzzz", "%s%n", strings.Repeat("x", 300), strings.Repeat("é", 40),
	"pc-q35-99.0", "virt-9.2", "s390-ccw-virtio-9.2",
	"EPYC-Rome", "avx2", "svm", "OVMF_CODE_4M.ms.fd", "root", "b",
	0, 1, 2, -1, 3, 31, 32, 40, 52, 53, 64, 255, 256, 4096, 4097, 1 << 20, math.MaxInt32, math.MaxUint32, math.MaxInt64, 1.5, 1e30, true, false, nil,
	[]any{}, map[string]any{}, []any{"b", "a"}, []any{"a", "a"}, []any{"aes", "avx2", "svm"}, map[string]any{"pci": "0000:01:00.0"},
}

// one returns a random value of a list.
func one[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// replacement returns a value for the place of another.
func (f forger) replacement(of any) any {
	switch f.IntN(4) {
	case 0:
		return one(f.Rand, nonsense)
	case 1:
		return one(f.Rand, f.donors)
	}
	switch value := of.(type) {
	case string: // a text that is almost the same
		letters := []byte(value + "0")
		letters[f.IntN(len(letters))] = one(f.Rand, []byte("0123456789abcdefxyz-.:,<&/ \x01"))
		return string(letters[:len(letters)-f.IntN(2)])
	case float64:
		return value + float64(f.IntN(5)-2)
	case bool:
		return !value
	case []any:
		return f.forgeList(value)
	case map[string]any:
		return f.forgeMap(value)
	}
	return one(f.Rand, f.donors)
}

func (f forger) forgeList(list []any) []any {
	list = slices.Clone(list)
	switch at := f.IntN(len(list) + 1); f.IntN(6) {
	case 0:
		slices.Reverse(list)
	case 1:
		return slices.Insert(list, at, one(f.Rand, f.donors))
	case 2:
		return slices.Concat(list, list)
	case 3: // more entries than any list may have, in order
		for i := range 1100 {
			list = append(list, fmt.Sprintf("z%04d", i))
		}
	default:
		if at < len(list) {
			list[at] = f.replacement(list[at])
		}
	}
	return list
}

func (f forger) forgeMap(entries map[string]any) map[string]any {
	entries = maps.Clone(entries)
	keys := slices.Sorted(maps.Keys(entries))
	if len(keys) == 0 {
		keys = []string{"cpu"}
	}
	key := one(f.Rand, keys)
	switch f.IntN(8) {
	case 0:
		delete(entries, key)
	case 1:
		entries[fmt.Sprint(one(f.Rand, nonsense))] = entries[key]
	case 2: // two devices at one address, or one fact in the place of another
		entries[one(f.Rand, keys)] = entries[key]
	case 3:
		entries[one(f.Rand, []string{"disk.new", "controller.pci.7", "controller.scsi.3", "new", "interface.default"})] = entries[key]
	default:
		entries[key] = f.replacement(entries[key])
	}
	return entries
}

// contradict makes a record with a CPU that no guest has had.
func (f forger) contradict(tree map[string]any) {
	cpu, is := tree["cpu"].(map[string]any)
	if !is {
		cpu = map[string]any{"model": "EPYC-Rome", "topology": map[string]any{"sockets": 1, "cores": 2, "threads": 1}}
	}
	cpu = maps.Clone(cpu)
	cpu["requested"] = one(f.Rand, []string{"host-model", "host-passthrough", "EPYC-Rome"})
	cpu["features"], cpu["disabledFeatures"] = one(f.Rand, nonsense), one(f.Rand, []any{nil, []any{"avx2"}, []any{"aes", "vmx"}, []any{"a<b"}})
	cpu["verified"], cpu["physicalBits"] = f.IntN(2) == 0, one(f.Rand, []any{0, 31, 40, 52, 53})
	tree["cpu"] = cpu
}

// forge returns a record with up to three changes, as JSON.
func (f forger) forge(t *testing.T, valid []byte) []byte {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(valid, &tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + f.IntN(3) {
		tree = f.forgeMap(tree)
	}
	if f.IntN(8) == 0 {
		f.contradict(tree)
	}
	forged, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return forged
}

// valuesOf appends all values in a tree of JSON.
func valuesOf(values []any, tree any) []any {
	values = append(values, tree)
	switch tree := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			values = valuesOf(values, tree[key])
		}
	case []any:
		for _, entry := range tree {
			values = valuesOf(values, entry)
		}
	}
	return values
}

// TestForgedRecords: a forged record is refused with its entry, or rendering it is refused with a field, or it makes a domain that libvirt's schema allows and
// that the next boot makes again.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	machines := forgedMachines(t)
	f := forger{Rand: rand.New(rand.NewPCG(forgeSeed, forgeSeed))}
	var valid [][]byte
	for _, m := range machines {
		rendered, errs := render.Domain(m)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", m.VMI.Name, errs.ToAggregate())
		}
		text, err := json.Marshal(rendered.Record)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		valid, f.donors = append(valid, text), valuesOf(f.donors, tree)
	}
	var refused, unrenderable int
	legal := map[string]string{}
	for i := range forgeries {
		m := machines[i%len(machines)]
		text := f.forge(t, valid[(i%len(machines)+i/len(machines)%7/6)%len(valid)]) // one of seven is of another guest
		m.Frozen = &record.Record{}
		err := json.Unmarshal(text, m.Frozen)
		if err == nil {
			err = record.Check(m.Frozen)
		}
		if err != nil {
			if refused++; len(err.Error()) > mostText {
				t.Errorf("%d: an error of %d bytes", i, len(err.Error()))
			}
			continue
		}
		xml, problem := renderForged(m)
		switch {
		case problem != "":
			t.Errorf("forgery %d of %s: %s\n%.2000s", i, m.VMI.Name, problem, text)
		case xml == "":
			unrenderable++
		default:
			legal[m.VMI.Name+strconv.Itoa(i)] = xml
		}
	}
	t.Logf("%d records are refused, %d cannot be rendered, %d make a domain", refused, unrenderable, len(legal))
	if refused < forgeries/10 || unrenderable == 0 || len(legal) < forgeries/10 {
		t.Error("the forgeries are of one kind")
	}
	every := max(1, len(legal)/validated)
	for i, name := range slices.Sorted(maps.Keys(legal)) {
		if i%every != 0 {
			continue
		}
		if err := libvirt.Validate(legal[name]); err != nil {
			t.Errorf("%s: %v\n%s", name, err, legal[name])
		}
	}
}

// renderForged returns the domain of a forged record, or no domain if the errors name their fields. problem says what is wrong with either.
func renderForged(m render.Machine) (xml, problem string) {
	rendered, errs := render.Domain(m)
	for _, err := range errs {
		if err.Field == "" || len(err.Error()) > mostText {
			return "", fmt.Sprintf("an error without field, or of %d bytes: %.200s", len(err.Error()), err.Error())
		}
	}
	if len(errs) > 0 {
		return "", ""
	}
	dom := rendered.Documents.Domain
	xml, err := dom.Marshal()
	if err != nil {
		return "", err.Error()
	}
	read := &libvirtxml.Domain{}
	if err := read.Unmarshal(xml); err != nil {
		return "", err.Error()
	}
	if again, err := read.Marshal(); err != nil || again != xml {
		return "", fmt.Sprintf("the domain changes when it is read (-written +read): %v\n%s", err, cmp.Diff(xml, again))
	}
	if text := sharedAddress(dom); text != "" {
		return "", text
	}
	if err := record.Check(&rendered.Record); err != nil {
		return "", fmt.Sprintf("the next boot refuses the record of this one: %v", err)
	}
	m.Frozen = &rendered.Record
	next, errs := render.Frontend(m)
	if len(errs) > 0 {
		return "", fmt.Sprintf("the next boot has no hardware: %v", errs.ToAggregate())
	}
	if changes := abi.Changes(rendered.Frontend, next); len(changes) > 0 {
		return "", fmt.Sprintf("the next boot has other hardware: %q", changes)
	}
	return xml, ""
}

// sharedAddress names two devices of a domain that have one address.
func sharedAddress(dom *libvirtxml.Domain) string {
	taken := map[string]string{}
	for _, d := range abi.Devices(dom) {
		at := abi.FromLibvirt(*d.Address)
		at.Target, at.Index, at.Expander = "", nil, ""
		if at == (record.Address{}) {
			continue
		}
		bus := ""
		if d.Disk != nil && d.Disk.Target != nil {
			bus = d.Disk.Target.Bus // SATA and SCSI count their controllers apart
		}
		place := bus + " " + at.String()
		if other, shared := taken[place]; shared {
			return fmt.Sprintf("'%s' and '%s' are both at %s", other, d.Key(), place)
		}
		taken[place] = d.Key()
	}
	return ""
}
