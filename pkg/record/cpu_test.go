package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
)

// legalCPU returns a CPU that Check accepts.
func legalCPU() *CPU {
	return &CPU{Requested: "host-model", Model: "EPYC", Vendor: "AMD", Features: []string{"avx2", "sse4.1"}, DisabledFeatures: []string{"monitor", "xsavec"},
		PhysicalBits: 46, Topology: Topology{Sockets: 1, Cores: 2, Threads: 2}}
}

// TestCPUIsChecked: each value of a recorded CPU that libvirt cannot have is refused with its name.
func TestCPUIsChecked(t *testing.T) {
	t.Parallel()
	if err := Check(&Record{SchemaVersion: 2, CPU: legalCPU()}); err != nil {
		t.Error(err)
	}
	many := make([]string, v1alpha1.MostCPUFeatures+1)
	for i := range many {
		many[i] = fmt.Sprintf("f%05d", i)
	}
	for want, change := range map[string]func(*CPU){
		"cpu.requested ''":                      func(c *CPU) { c.Requested = "" },
		"cpu.model 'host-model'":                func(c *CPU) { c.Model = "host-model" },
		"cpu.model 'EPYC<x/>'":                  func(c *CPU) { c.Model = "EPYC<x/>" },
		"cpu.vendor 'A MD'":                     func(c *CPU) { c.Vendor = "A MD" },
		"must come after 'sse4.1'":              func(c *CPU) { c.Features = []string{"sse4.1", "avx2"} },
		"[1] 'avx2' must come after 'avx2'":     func(c *CPU) { c.Features = []string{"avx2", "avx2"} },
		"[0] 'a?b' must be a feature":           func(c *CPU) { c.Features = []string{"a\nb"} },
		"must have at most 1024 entries":        func(c *CPU) { c.Features = many },
		"'avx2': must not be in features":       func(c *CPU) { c.DisabledFeatures = []string{"avx2"} },
		"cpu.physicalBits '64'":                 func(c *CPU) { c.PhysicalBits = 64 },
		"cpu.topology.threads '0'":              func(c *CPU) { c.Topology.Threads = 0 },
		"cpu.topology.sockets '4294967296'":     func(c *CPU) { c.Topology.Sockets = 1 << 32 },
		"cpu.disabledFeatures '1025'":           func(c *CPU) { c.DisabledFeatures = many },
		"cpu.vendor '" + strings.Repeat("x", 8): func(c *CPU) { c.Vendor = strings.Repeat("x", 1<<10) },
	} {
		cpu := legalCPU()
		change(cpu)
		if err := Check(&Record{CPU: cpu}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("want '%s', got %v", want, err)
		}
	}
}

// TestCPUsAreCompared: the comparison of two CPUs names the model, the features and the width of addresses that differ.
func TestCPUsAreCompared(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct {
		change func(*CPU)
		want   []Change
	}{
		"nothing":                   {func(c *CPU) { c.Verified, c.FirstSeen = true, true }, nil},
		"another model":             {func(c *CPU) { c.Model = "EPYC-Rome" }, cpuChange("the model from 'EPYC' to 'EPYC-Rome'")},
		"a lost feature":            {func(c *CPU) { c.Features = []string{"sse4.1"} }, cpuChange("without avx2")},
		"a disabled feature of one": {func(c *CPU) { c.DisabledFeatures = []string{"monitor"} }, cpuChange("with xsavec")},
		"both":                      {func(c *CPU) { c.Features = []string{"avx2", "hle"} }, cpuChange("without sse4.1, with hle")},
		"the width":                 {func(c *CPU) { c.PhysicalBits = 0 }, cpuChange("physical addresses from 46 bits to the model's default")},
		"the topology": {func(c *CPU) { c.Topology.Sockets = 2 }, []Change{{Part: PartTopology, Verdict: NeedsRestart,
			Text: "the CPU topology changes from 1 sockets, 2 cores, 2 threads to 2 sockets, 2 cores, 2 threads"}}},
	} {
		after := legalCPU()
		c.change(after)
		if diff := cmp.Diff(c.want, Compare(Record{CPU: legalCPU()}, Record{CPU: after})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	if changes := Compare(Record{}, Record{CPU: legalCPU()}); changes != nil {
		t.Errorf("a CPU that is recorded for the first time is a change: %v", changes)
	}
}

func cpuChange(text string) []Change {
	return []Change{{Part: PartCPU, Verdict: Breaks, Text: "the CPU changes: " + text}}
}

// TestListFeatures: a text names a dozen features, and counts the others.
func TestListFeatures(t *testing.T) {
	t.Parallel()
	names := strings.Fields("a b c d e f g h i j k l m n")
	if got, want := ListFeatures(names), "a, b, c, d, e, f, g, h, i, j, k, l and 2 more features"; got != want {
		t.Errorf("'%s', want '%s'", got, want)
	}
}
