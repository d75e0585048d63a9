package hooked

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/kubevirt"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// few is how many guests 'make test' tries.
const few = 12

// TestNothingMoves: of guests whose other devices are edited, no device moves with the hook. How many KubeVirt moves without it is printed.
func TestNothingMoves(t *testing.T) { nothingMoves(t, few) }

// TestNothingMovesOf200 is TestNothingMoves with more guests.
func TestNothingMovesOf200(t *testing.T) {
	nightly.Only(t)
	nothingMoves(t, 200)
}

func nothingMoves(t *testing.T, guests int) {
	l := start(t)
	var devices, with, definitions int
	var without, placed tally
	for seed := range uint64(guests) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // to be repeated
		vmi := guest(random)
		first := l.defined(t, explicit(t, vmi), hooks{})
		change, what := edited(vmi, random)
		later := explicit(t, change)
		frozen := captured(t, first, nil)
		kept := same(frozen, captured(t, l.defined(t, later, hooks{}), nil))
		devices += kept.all
		without.add(kept)
		l.placed(t, seed, later, frozen, &placed)
		remember(t, later, frozen)
		asked := l.sidecar()
		if seed%4 == 3 { // the plugins' way is through libvirtxml
			asked = l.plugin()
		}
		xml, times, err := l.define(t, later, asked)
		if err != nil {
			t.Errorf("guest %d (%s): %v", seed, strings.Join(what, ", "), err)
			continue
		}
		definitions += times
		now := captured(t, xml, nil)
		if elsewhere := same(rendered(t, later, frozen), now).moved; len(elsewhere) > 0 {
			t.Errorf("guest %d (%s): new devices are not where the next boot will look for them: %s", seed, strings.Join(what, ", "), strings.Join(elsewhere, ", "))
		}
		if moved := same(frozen, now).moved; len(moved) > 0 {
			with += len(moved)
			t.Errorf("guest %d (%s): %s moved\n%s", seed, strings.Join(what, ", "), strings.Join(moved, ", "), xml)
		}
	}
	t.Logf("%d guests, each edited once, of %d devices:\nKubeVirt alone moves %s;\nwith pciAddress (%d addresses) %s;\nwith the hook %d, over %d definitions",
		guests, devices, without, placed.set, placed, with, definitions)
	if without.disks == 0 || without.interfaces == 0 || placed.disks+placed.interfaces > 0 || placed.devices >= without.devices || placed.set == 0 {
		t.Error("KubeVirt moves nothing that an address pins, or a disk or interface with a recorded address has moved")
	}
}

// TestRecordOfKiln: the record that Kiln renders of a VMI is what its guest has under KubeVirt, from the first boot on.
func TestRecordOfKiln(t *testing.T) {
	l := start(t)
	for seed := range uint64(few) {
		random := rand.New(rand.NewPCG(seed, 8)) //nolint:gosec // to be repeated
		vmi := guest(random)
		frozen := rendered(t, explicit(t, vmi), nil)
		for _, next := range []*v1.VirtualMachineInstance{vmi, func() *v1.VirtualMachineInstance { out, _ := edited(vmi, random); return out }()} {
			later := explicit(t, next)
			remember(t, later, frozen)
			frozen = rendered(t, later, frozen)
			xml := l.defined(t, later, l.sidecar())
			if moved := same(frozen, captured(t, xml, nil)).moved; len(moved) > 0 {
				t.Errorf("guest %d: %s are elsewhere\n%s", seed, strings.Join(moved, ", "), xml)
			}
		}
	}
}

// TestCPUOfHook: libvirt has exactly the recorded CPU after KubeVirt's last definition. KubeVirt reads each definition back in types that lose vendor and
// check.
func TestCPUOfHook(t *testing.T) {
	l := start(t)
	for seed := range uint64(few) {
		vmi := guest(rand.New(rand.NewPCG(seed, 9))) //nolint:gosec // to be repeated
		vmi.Spec.Domain.CPU = &v1.CPU{Model: v1.CPUModeHostModel}
		later := explicit(t, vmi)
		frozen := rendered(t, later, nil)
		frozen.CPU = &record.CPU{Requested: v1.CPUModeHostModel, Model: "EPYC", Vendor: "AMD", Features: []string{"arat", "x2apic"},
			DisabledFeatures: []string{"monitor"}, Topology: record.Topology{Sockets: 1, Cores: 1, Threads: 1}, Verified: seed%2 == 0}
		if seed%3 == 0 { // with the features of a record that has no disabled ones, KubeVirt gets the model from admission
			frozen.CPU.DisabledFeatures = nil
		}
		record.PinCPU(later, frozen.CPU, true)
		remember(t, later, frozen)
		asked := l.sidecar()
		if seed%2 == 1 {
			asked = l.plugin()
		}
		var dom libvirtxml.Domain
		if err := dom.Unmarshal(l.defined(t, later, asked)); err != nil {
			t.Fatal(err)
		}
		if dom.CPU == nil || dom.CPU.Mode != "custom" || dom.CPU.Match != "exact" || (dom.CPU.Check == "full") != frozen.CPU.Verified {
			t.Fatalf("guest %d: %+v", seed, dom.CPU)
		}
		got := abi.ReadCPU(dom.CPU)
		got.Requested, got.Verified, got.Topology = frozen.CPU.Requested, frozen.CPU.Verified, frozen.CPU.Topology
		if diff := cmp.Diff(frozen.CPU, &got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("guest %d (-recorded +defined):\n%s", seed, diff)
		}
	}
}

// rendered is the record that Kiln's controller keeps.
func rendered(t *testing.T, vmi *v1.VirtualMachineInstance, earlier *record.Record) *record.Record {
	t.Helper()
	out, errs := render.KubeVirt(vmi, earlier)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &out
}

func (l *launcher) defined(t *testing.T, vmi *v1.VirtualMachineInstance, asked hooks) string {
	t.Helper()
	xml, _, err := l.define(t, vmi, asked)
	if err != nil {
		t.Fatal(err)
	}
	return xml
}

func captured(t *testing.T, xml string, earlier *record.Record) *record.Record {
	t.Helper()
	out, err := kubevirt.Capture([]byte(xml), earlier)
	if err != nil {
		t.Fatalf("%v\n%s", err, xml)
	}
	return out
}

// remember gives a VMI the annotation with its record.
func remember(t *testing.T, vmi *v1.VirtualMachineInstance, frozen *record.Record) {
	t.Helper()
	text := []byte(v1alpha1.FrontendNew)
	if frozen != nil {
		var err error
		if text, err = json.Marshal(frozen); err != nil {
			t.Fatal(err)
		}
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[v1alpha1.AnnotationFrontend] = string(text)
}

// comparison of two records: the devices that both have, and which of these have moved. PCI controllers, target names and the machine's own SATA controller do
// not count, because the guest looks for devices only.
type comparison struct {
	all   int
	moved []string
}

func same(before, after *record.Record) (out comparison) {
	for _, key := range slices.Sorted(maps.Keys(before.Devices)) {
		was, is := before.Devices[key], after.Devices[key]
		if _, port := record.Port(key); port || is == (record.Address{}) {
			continue
		}
		was.Index, is.Index, was.Target, is.Target = nil, nil, "", ""
		if was == (record.Address{}) {
			continue
		}
		out.all++
		if was != is {
			out.moved = append(out.moved, key+" from "+was.String()+" to "+is.String())
		}
	}
	return out
}
