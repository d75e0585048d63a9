package virtlauncher

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
)

// TestRecordedCPU: the CPU that libvirt made of host-model is captured from a running guest. By Kiln's hook the next boot asks libvirt for exactly this CPU,
// and the guest reports the same CPU, DMI and boot devices in every byte. The labels of the node do not tell the CPU: it lacks a feature of its model under
// emulation.
func TestRecordedCPU(t *testing.T) {
	nightly.Only(t)
	require(t)
	g := grades{space: newSpace(t), dir: t.TempDir()}
	t.Cleanup(func() { // later tests have no gates and no hook
		removeKiln(t)
		if err := SetGates(context.WithoutCancel(t.Context()), shared); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Build(t.Context(), "../..", g.dir, "kubectl-kiln"); err != nil {
		t.Fatal(err)
	}
	g.install("Sidecar")
	g.create(machine)
	g.virtctl("start", "demo")
	first := g.runs("demo", "")
	before := g.reports(first)
	if domain := g.askedDomain(first); !strings.Contains(domain, "<cpu mode='host-model'") {
		t.Errorf("the first boot does not ask for host-model:\n%s", domain)
	}
	running := g.kubectl("exec", g.pod(first), "-c", "compute", "--", "virsh", "dumpxml", g.name+"_demo")
	if err := os.WriteFile(g.domain("demo"), []byte(running), 0o600); err != nil {
		t.Fatal(err)
	}
	g.capture("demo")
	var hardware v1alpha1.GuestHardware
	if err := json.Unmarshal([]byte(g.kubectl("get", "guesthardware", "demo", "-o", "json")), &hardware); err != nil {
		t.Fatal(err)
	}
	cpu := hardware.Spec.Hardware.CPU
	if cpu == nil || cpu.Requested != v1.CPUModeHostModel || !cpu.Verified || cpu.FirstSeen {
		t.Fatalf("the captured CPU is %+v", cpu)
	}

	g.virtctl("restart", "demo")
	second := g.runs("demo", string(first.UID))
	domain := g.askedDomain(second)
	if !strings.Contains(domain, "<cpu mode='custom' match='exact' check='full'>") || !strings.Contains(domain, ">"+cpu.Model+"<") {
		t.Errorf("the second boot does not ask for exactly %s:\n%s", cpu.Model, domain)
	}
	g.sameMachine(before, g.reports(second))
	g.kubectl("delete", "vm", "demo", "--timeout=120s")
	g.gone("vm,vmi,pods")
}

// askedDomain returns the domain of a guest as virt-launcher has defined it. The running domain has what libvirt has made of it.
func (g space) askedDomain(vmi v1.VirtualMachineInstance) string {
	g.Helper()
	return g.kubectl("exec", g.pod(vmi), "-c", "compute", "--", "virsh", "dumpxml", "--inactive", g.name+"_demo")
}
