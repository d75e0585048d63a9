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

// TestRestoreCPU: the domain gets exactly the recorded CPU, and keeps topology and NUMA nodes. A definition that KubeVirt has read back and written again,
// without vendor and check, gets it again. Other CPUs stay.
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
