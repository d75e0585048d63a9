package backend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
	"sigs.k8s.io/yaml"
)

// machine is a guest of YAML (a spec) made explicit by stage 1, on the assumed host.
func machine(t testing.TB, spec string) render.Machine {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.UID = "guest", "default", "5f0c1f6e-6d2a-4c7b-9a43-8f3e1d2c7b6a"
	if err := yaml.UnmarshalStrict([]byte(spec), &vmi.Spec); err != nil {
		t.Fatal(err)
	}
	explicit, verdict := admit.VMI(vmi, admit.Input{Cluster: config.Default()})
	if !verdict.Allowed() {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	arch := explicit.Spec.Architecture
	return render.Machine{VMI: explicit, Defaults: config.Default().Frontend,
		Host: backend.Assumed(arch), Bindings: backend.AssumedBindings(explicit)}
}

func rendered(t testing.TB, m render.Machine) *libvirtxml.Domain {
	t.Helper()
	out, errs := render.Domain(m)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out.Documents.Domain
}

// nodes of a host: for each its cores, for each core its CPUs. A node has 1 GiB for each CPU, half of it in pages of 2 MiB.
func nodes(cores ...[][]int) []backend.NUMANode {
	var out []backend.NUMANode
	for id, node := range cores {
		c := backend.NUMANode{ID: id, Distances: map[int]uint{}}
		for to := range cores {
			c.Distances[to] = 20
		}
		c.Distances[id] = 10
		for core, cpus := range node {
			for _, cpu := range cpus {
				c.CPUs = append(c.CPUs, backend.CPU{ID: cpu, Socket: id, Core: core})
				c.MemoryKiB += 1 << 20
			}
		}
		c.Pages = map[uint64]uint64{2048: c.MemoryKiB / 2048 / 2}
		out = append(out, c)
	}
	return out
}

// on gives the guest a host of these nodes and all their CPUs.
func on(m render.Machine, host []backend.NUMANode) render.Machine {
	m.Host.NUMA, m.Bindings.CPUs = host, nil
	for _, node := range host {
		for _, cpu := range node.CPUs {
			m.Bindings.CPUs = append(m.Bindings.CPUs, cpu.ID)
		}
	}
	return m
}

// refusal compares errors by type and field, and the first one's message.
func refusal(t *testing.T, m render.Machine, want, words string) {
	t.Helper()
	_, errs := render.Domain(m)
	if got := causes(errs); got != want || len(errs) > 0 && !strings.Contains(errs[0].Detail, words) {
		t.Errorf("errors are %v, want '%s' with '%s'", errs.ToAggregate(), want, words)
	}
}

func causes(errs field.ErrorList) string {
	var list []string
	for _, err := range errs {
		list = append(list, string(err.Type)+" "+err.Field)
	}
	return strings.Join(list, ", ")
}

// partXML returns one part of a domain as XML without white space between elements.
func partXML(t *testing.T, domain libvirtxml.Domain) string {
	t.Helper()
	text, err := domain.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.NewReplacer("<domain>", "", "</domain>", "").Replace(strings.Join(lines, ""))
}

func same(t *testing.T, what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
