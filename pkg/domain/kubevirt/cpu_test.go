package kubevirt

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// epyc is a CPU that was recorded for host-model, and lacks some features.
func epyc(lacks ...string) *record.CPU {
	return &record.CPU{Requested: v1.CPUModeHostModel, Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "svm", "x2apic"}, DisabledFeatures: lacks}
}

// asks are the model and the features of a VMI, such as 'EPYC avx2=require'.
func asks(vmi *v1.VirtualMachineInstance) string {
	text := vmi.Spec.Domain.CPU.Model
	for _, f := range vmi.Spec.Domain.CPU.Features {
		text += " " + f.Name + "=" + f.Policy
	}
	return text
}

func withCPU(model string, features ...v1.CPUFeature) *v1.VirtualMachineInstance {
	out := vmi()
	out.Spec.Domain.CPU = &v1.CPU{Model: model, Features: features}
	return out
}

// TestPinCPU: what a VMI asks for, and that UnpinCPU finds host-model and what the owner asked for again.
func TestPinCPU(t *testing.T) {
	t.Parallel()
	const all = " avx2=require svm=require x2apic=require"
	for _, test := range []struct {
		why, model string
		features   []v1.CPUFeature
		recorded   *record.CPU
		hooked     bool
		want, was  string // was is what UnpinCPU returns, if it is not what the VMI asked for
	}{
		{why: "host-model", recorded: epyc(), want: "EPYC" + all},
		{why: "host-model with the hook", recorded: epyc(), hooked: true, want: "EPYC" + all},
		{why: "no record", want: "host-model"},
		{why: "a model of the owner", model: "Haswell", recorded: epyc(), want: "Haswell"},
		{why: "the host's CPU", model: v1.CPUModeHostPassthrough, recorded: epyc(), want: "host-passthrough"},
		{why: "a record for another model", recorded: &record.CPU{Requested: "Haswell", Model: "Haswell"}, want: "host-model"},
		{why: "a feature that KubeVirt disables too", recorded: epyc("mpx"), want: "EPYC" + all},
		{why: "a model of which the node lacks a feature", recorded: epyc("sha-ni"), want: "host-model"},
		{why: "a model of which the node lacks a feature, with the hook", recorded: epyc("sha-ni"), hooked: true, want: "host-model" + all,
			was: "host-model" + all},
		{why: "a feature that the owner does without", features: []v1.CPUFeature{{Name: "sha-ni", Policy: "disable"}}, recorded: epyc("sha-ni"),
			want: "EPYC sha-ni=disable" + all},
		{why: "a feature that the owner now does without", features: []v1.CPUFeature{{Name: "svm", Policy: "disable"}}, recorded: epyc(),
			want: "EPYC svm=disable avx2=require x2apic=require"},
		{why: "a feature that the owner asks for", features: []v1.CPUFeature{{Name: "aes"}}, recorded: epyc(), want: "EPYC aes=" + all},
		{why: "optional features", features: []v1.CPUFeature{{Name: "svm", Policy: "optional"}, {Name: "mpx", Policy: "optional"}, {Name: "aes", Policy: "optional"}},
			recorded: epyc("mpx"), want: "EPYC svm=require mpx=disable aes=optional avx2=require x2apic=require", was: "host-model mpx=disable aes=optional"},
	} {
		if test.model == "" {
			test.model = v1.CPUModeHostModel
		}
		given := withCPU(test.model, test.features...)
		before := asks(given)
		PinCPU(given, test.recorded, test.hooked)
		if got := asks(given); got != test.want {
			t.Errorf("%s: %s, want %s", test.why, got, test.want)
		}
		PinCPU(given, test.recorded, test.hooked)
		if got := asks(given); got != test.want {
			t.Errorf("%s, once more: %s, want %s", test.why, got, test.want)
		}
		if test.was == "" {
			test.was = before
		}
		if got := asks(UnpinCPU(given, test.recorded)); got != test.was {
			t.Errorf("%s: without the pin %s, want %s", test.why, got, test.was)
		}
		if got := asks(given); got != test.want {
			t.Errorf("%s: UnpinCPU changes its VMI to %s", test.why, got)
		}
	}
	PinCPU(vmi(), epyc(), false)
	if given := withCPU("EPYC"); UnpinCPU(given, epyc()) != given {
		t.Error("a model of the owner, without the recorded features, counts as a pin")
	}
}

// cpuOf is the CPU of a domain.
func cpuOf(t *testing.T, text []byte) libvirtxml.DomainCPU {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(text); err != nil {
		t.Fatal(err)
	}
	out := etree.NewDocumentWithRoot(doc.FindElement("domain/cpu").Copy())
	raw, err := out.WriteToBytes()
	if err != nil {
		t.Fatal(err)
	}
	var cpu libvirtxml.DomainCPU
	if err := xml.Unmarshal(raw, &cpu); err != nil {
		t.Fatal(err)
	}
	return cpu
}

// TestRestoreCPU: the domain gets exactly the recorded CPU, and keeps topology and NUMA nodes. A definition that KubeVirt has read back and written again, without
// vendor and check, gets it again. Other CPUs stay.
func TestRestoreCPU(t *testing.T) {
	t.Parallel()
	const inside = `<topology sockets="2" dies="1" cores="1" threads="1"></topology><numa><cell id="0" cpus="0-1" memory="1048576"></cell></numa>`
	with := func(cpu string) []byte {
		return []byte(strings.Replace(string(domain("pc-q35-7.2")), "<devices>", cpu+"<devices>", 1))
	}
	was := frozen(1)
	was.CPU = epyc("sha-ni")
	was.CPU.Verified, was.CPU.PhysicalBits = true, 46
	for why, cpu := range map[string]string{
		"host-model":          `<cpu mode="host-model"><feature policy="require" name="aes"></feature>` + inside + `</cpu>`,
		"what was read back":  `<cpu mode="custom"><model>EPYC</model><feature policy="require" name="avx2"></feature>` + inside + `</cpu>`,
		"what libvirt prints": `<cpu mode="custom" match="exact" check="none"><model fallback="allow">EPYC</model><vendor>AMD</vendor>` + inside + `</cpu>`,
	} {
		made, err := PutBack(with(cpu), vmi(), was)
		if err != nil {
			t.Fatal(err)
		}
		got := cpuOf(t, made)
		read := abi.ReadCPU(&got)
		read.Requested, read.Verified, read.Topology = v1.CPUModeHostModel, got.Check == "full", record.Topology{}
		if diff := cmp.Diff(was.CPU, &read); diff != "" || got.Mode != "custom" || got.Match != "exact" || got.Model.Fallback != "forbid" {
			t.Errorf("%s: %s (-want +got):\n%s", why, made, diff)
		}
		if got.Topology == nil || got.Topology.Sockets != 2 || got.Numa == nil || len(got.Numa.Cell) != 1 {
			t.Errorf("%s: topology or NUMA nodes are gone: %s", why, made)
		}
	}
	unverified := frozen(1)
	unverified.CPU = epyc()
	if made, err := PutBack(with(`<cpu mode="host-model"></cpu>`), vmi(), unverified); err != nil || !strings.Contains(string(made), `check="partial"`) {
		t.Errorf("a CPU that libvirt has not run yet: %v\n%s", err, made)
	}
	named := frozen(1)
	named.CPU = &record.CPU{Requested: "EPYC", Model: "EPYC", Features: []string{"svm"}}
	for _, test := range []struct {
		cpu string
		was *record.Record
	}{{`<cpu mode="custom"><model>max</model></cpu>`, was}, {`<cpu mode="host-passthrough"/>`, was}, {`<cpu mode="custom"><model>EPYC</model></cpu>`, named},
		{`<cpu mode="host-model"/>`, frozen(1)}} {
		if made, err := PutBack(with(test.cpu), vmi(), test.was); err != nil || !strings.Contains(string(made), test.cpu) {
			t.Errorf("%s becomes %v\n%s", test.cpu, err, made)
		}
	}
}
