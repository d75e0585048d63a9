package render

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// reporting is a VMI with devices and volumes whose facts a launcher reports.
func reporting(machine string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Spec.Domain.Machine = &v1.Machine{Type: machine}
	vmi.Spec.Domain.Devices.HostDevices = []v1.HostDevice{{Name: "card"}, {Name: "desk"}}
	vmi.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "gpu"}}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{
		{Name: "vf", InterfaceBindingMethod: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}}, {Name: "nat"}}
	vmi.Spec.Volumes = []v1.Volume{{Name: "data"}, {Name: "more"}}
	return vmi
}

// known are facts of a host.
func known() frontend.Facts {
	return frontend.Facts{
		Machines:            map[string]string{"q35": "pc-q35-10.0"},
		Firmware:            []string{"OVMF_CODE_4M.fd", "OVMF_CODE.fd"},
		HostDevices:         map[string]string{"card": "pci", "gpu": "mdev", "vf": "pci", "desk": "usb"},
		USBDevices:          map[string]int{"desk": 3},
		HostDeviceNUMANodes: map[string]int{"card": 0, "gpu": 1023},
		BlockSizes: map[string]v1.CustomBlockSize{"data": {Logical: 512, Physical: 4096},
			"more": {Logical: 4096, Physical: 4096, DiscardGranularity: new(uint(8192))}},
		NUMA: []frontend.NUMANode{{ID: 1, CPUs: 3, Distances: map[int]uint{0: 21, 1: 10, 7: 255}},
			{ID: 0, CPUs: 0}},
	}
}

// TestFactsThereAndBack: what the launcher knows is what the controller reads, through the API server.
func TestFactsThereAndBack(t *testing.T) {
	for _, test := range []struct {
		why, machine string
		given, want  frontend.Facts
	}{
		{"all of it", "q35", known(), known()},
		{"machine types that the VMI does not name", "virt", known(), with(func(f *frontend.Facts) { f.Machines = map[string]string{} })},
		{"nothing", "q35", frontend.Facts{}, frontend.Facts{Machines: map[string]string{}, HostDevices: map[string]string{},
			HostDeviceNUMANodes: map[string]int{}, USBDevices: map[string]int{}, BlockSizes: map[string]v1.CustomBlockSize{}}},
		{"blocks that no guest can have are not reported", "q35",
			with(sized(v1.CustomBlockSize{Logical: 512, Physical: 4 << 20})), with(func(f *frontend.Facts) { delete(f.BlockSizes, "data") })},
		{"nor a number that JSON would change", "q35",
			with(sized(v1.CustomBlockSize{Logical: math.MaxUint, Physical: 512})), with(func(f *frontend.Facts) { delete(f.BlockSizes, "data") })},
		{"nor a granularity that is too large", "q35", with(sized(v1.CustomBlockSize{Logical: 512, Physical: 512, DiscardGranularity: new(uint(1 << 32))})),
			with(sized(v1.CustomBlockSize{Logical: 512, Physical: 512}))},
		{"nor one of parts of blocks", "q35", with(sized(v1.CustomBlockSize{Logical: 4096, Physical: 4096, DiscardGranularity: new(uint(512))})),
			with(sized(v1.CustomBlockSize{Logical: 4096, Physical: 4096}))},
	} {
		t.Run(test.why, func(t *testing.T) {
			vmi := reporting(test.machine)
			raw, err := json.Marshal(Report(vmi, test.given))
			if err != nil {
				t.Fatal(err)
			}
			var report v1alpha1.GuestFacts
			if err := json.Unmarshal(raw, &report); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFacts(vmi, &report)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if again, _ := json.Marshal(Report(vmi, test.given)); string(again) != string(raw) {
				t.Errorf("two reports differ: %s, %s", raw, again)
			}
		})
	}
}

func with(change func(*frontend.Facts)) frontend.Facts {
	facts := known()
	change(&facts)
	return facts
}

func sized(size v1.CustomBlockSize) func(*frontend.Facts) {
	return func(f *frontend.Facts) { f.BlockSizes["data"] = size }
}

// hostileFacts each have one value that no host of the VMI can have.
var hostileFacts = []struct{ machine, report, want string }{
	{"q35", `{machine: pc-i440fx-10.0}`, "machine"},
	{"q35", `{machine: virt-10.0}`, "machine"},
	{"q35", `{machine: q35-10.0}`, "machine"},
	{"q35", `{machine: pc-q35-}`, "machine"},
	{"q35", `{machine: "pc-q35-10.0,accel=kvm"}`, "machine"},
	{"q35", `{machine: "pc-q35-1\n"}`, "machine"},
	{"q35", `{machine: pc-q35-` + strings.Repeat("1", 64) + `}`, "machine"},
	{"pc-q35-9.2", `{machine: pc-q35-10.0}`, "machine"},
	{"", `{machine: -x}`, "machine"},
	{"q35", `{firmware: [OVMF_CODE.fd, /etc/passwd]}`, "firmware[1]"},
	{"q35", `{firmware: [""]}`, "firmware[0]"},
	{"q35", `{firmware: ["a\n"]}`, "firmware[0]"},
	{"q35", `{firmware: [` + strings.Repeat("a, ", 32) + `a]}`, "firmware"},
	{"q35", `{hostDevices: {card: scsi}}`, "hostDevices[card]"},
	{"q35", `{hostDevices: {card: ""}}`, "hostDevices[card]"},
	{"q35", `{hostDevices: {card: "pci mdev"}}`, "hostDevices[card]"},
	{"q35", `{hostDevices: {other: pci}}`, "hostDevices[other]"},
	{"q35", `{hostDevices: {nat: pci}}`, "hostDevices[nat]"},
	{"q35", `{usbDevices: {desk: 2}}`, "usbDevices[desk]"},
	{"q35", `{usbDevices: {card: 2}, hostDevices: {card: pci}}`, "usbDevices[card]"},
	{"q35", `{usbDevices: {other: 2}}`, "usbDevices[other]"},
	{"q35", `{usbDevices: {desk: 1}, hostDevices: {desk: usb}}`, "usbDevices[desk]"},
	{"q35", `{usbDevices: {desk: -1}, hostDevices: {desk: usb}}`, "usbDevices[desk]"},
	{"q35", `{usbDevices: {desk: 17}, hostDevices: {desk: usb}}`, "usbDevices[desk]"},
	{"q35", `{hostDeviceNUMANodes: {card: -1}}`, "hostDeviceNUMANodes[card]"},
	{"q35", `{hostDeviceNUMANodes: {card: 1024}}`, "hostDeviceNUMANodes[card]"},
	{"q35", `{hostDeviceNUMANodes: {other: 0}}`, "hostDeviceNUMANodes[other]"},
	{"q35", `{blockSizes: {other: {logical: 512, physical: 512}}}`, "blockSizes[other]"},
	{"q35", `{blockSizes: {data: {logical: 0, physical: 512}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 256, physical: 512}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 513, physical: 1024}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 512, physical: 4194304}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: -2147483648, physical: 512}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 4096, physical: 512}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 512, physical: 512, discardGranularity: -512}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 512, physical: 512, discardGranularity: 513}}}`, "blockSizes[data]"},
	{"q35", `{blockSizes: {data: {logical: 512, physical: 512, discardGranularity: 2147483136}}}`, "blockSizes[data]"},
	{"q35", `{numa: [{id: -1, cpus: 1}]}`, "numa[0]"},
	{"q35", `{numa: [{id: 1024, cpus: 1}]}`, "numa[0]"},
	{"q35", `{numa: [{id: 0, cpus: 1}, {id: 0, cpus: 1}]}`, "numa[1]"},
	{"q35", `{numa: [{id: 0, cpus: -1}]}`, "numa[0]"},
	{"q35", `{numa: [{id: 0, cpus: 65537}]}`, "numa[0]"},
	{"q35", `{numa: [{id: 0, cpus: 1, distances: [{node: -1, distance: 10}]}]}`, "numa[0].distances"},
	{"q35", `{numa: [{id: 0, cpus: 1, distances: [{node: 1024, distance: 10}]}]}`, "numa[0].distances"},
	{"q35", `{numa: [{id: 0, cpus: 1, distances: [{node: 1, distance: 256}]}]}`, "numa[0].distances"},
	{"q35", `{numa: [{id: 0, cpus: 1, distances: [{node: 1, distance: -1}]}]}`, "numa[0].distances"},
	{"q35", `{numa: [{id: 0, cpus: 1, distances: [{node: 1, distance: 20}, {node: 1, distance: 30}]}]}`, "numa[0].distances"},
}

func TestHostileFacts(t *testing.T) {
	for _, test := range hostileFacts {
		t.Run(test.report, func(t *testing.T) {
			_, err := ReadFacts(reporting(test.machine), facts(t, test.report))
			if err == nil || !strings.HasPrefix(err.Error(), "status.facts."+test.want+":") || len(err.Error()) > 400 {
				t.Errorf("got '%v', want an error of %s", err, test.want)
			}
		})
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf("{node: %d, id: %[1]d, cpus: 1, distance: 20}", i))
	}
	list := strings.Join(many, ", ")
	for _, report := range []*v1alpha1.GuestFacts{nil, facts(t, "{numa: ["+list+"]}"), facts(t, "{numa: [{id: 0, cpus: 1, distances: ["+list+"]}]}")} {
		if _, err := ReadFacts(reporting("q35"), report); err == nil {
			t.Errorf("read: %v", report)
		}
	}
}

// TestFirstHostileFact: of several, the same one is named each time.
func TestFirstHostileFact(t *testing.T) {
	const report = `{hostDevices: {b: x, a: x, c: x}, hostDeviceNUMANodes: {d: -1, e: -1}, blockSizes: {f: {logical: 1, physical: 1}}}`
	for range 20 {
		if _, err := ReadFacts(reporting("q35"), facts(t, report)); err == nil || !strings.Contains(err.Error(), "[a]") {
			t.Fatalf("got '%v'", err)
		}
	}
}

// TestLegalFacts: the nearest neighbours of hostile facts.
func TestLegalFacts(t *testing.T) {
	for _, test := range []struct{ machine, report string }{
		{"q35", `{machine: q35}`},
		{"q35", `{machine: pc-q35-rhel9.6.0}`},
		{"q35", `{firmware: [` + strings.Repeat("a, ", 31) + `a]}`},
		{"virt", `{machine: virt-10.0}`},
		{"s390-ccw-virtio", `{machine: s390-ccw-virtio-10.0}`},
		{"pc-q35-9.2", `{machine: pc-q35-9.2}`},
		{"q35", `{hostDevices: {card: usb, gpu: mdev, vf: pci}, hostDeviceNUMANodes: {card: 0, gpu: 1023}}`},
		{"q35", `{hostDevices: {desk: usb, card: usb}, usbDevices: {desk: 2, card: 16}}`},
		{"q35", `{blockSizes: {data: {logical: 512, physical: 2097152, discardGranularity: 1073741824}}}`},
		{"q35", `{blockSizes: {data: {logical: 512, physical: 512, discardGranularity: 0}}}`},
		{"q35", `{numa: [{id: 1023, cpus: 65536, distances: [{node: 0, distance: 255}, {node: 1023, distance: 11}]}, {id: 0, cpus: 0}]}`},
	} {
		if _, err := ReadFacts(reporting(test.machine), facts(t, test.report)); err != nil {
			t.Errorf("%s: %v", test.report, err)
		}
	}
}

func facts(t *testing.T, text string) *v1alpha1.GuestFacts {
	t.Helper()
	report := &v1alpha1.GuestFacts{}
	if err := yaml.Unmarshal([]byte(text), report); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return report
}
