package vmipod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

// reportCPU reports the CPU that libvirt runs beside the hardware that the VMI asks for.
func (c *cluster) reportCPU(cpu *v1alpha1.ReportedCPU) {
	c.Helper()
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Running.CPU = cpu })
	c.reconcileAll()
}

// TestRunningCPU: the CPU that a launcher reports is in the GuestHardware while the guest runs, unless no libvirt reports such a CPU.
func TestRunningCPU(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.Domain.CPU.Model = v1.CPUModeHostModel
	c := newCluster(t, vmi)
	c.runGuest()
	forged := &v1alpha1.ReportedCPU{Model: "EPYC", Features: []string{strings.Repeat("a", 10000)}}
	c.reportCPU(forged)
	if got := c.hardware().Status.Running; got != nil {
		t.Fatalf("a forged CPU is copied: %+v", got)
	}
	cpu := &v1alpha1.ReportedCPU{Model: "EPYC", Vendor: "AMD", Features: []string{"avx2"}, DisabledFeatures: []string{"monitor"}}
	c.reportCPU(cpu)
	if diff := cmp.Diff(cpu, c.hardware().Status.Running.CPU); diff != "" {
		t.Errorf("(-reported +copied):\n%s", diff)
	}
	c.reportCPU(nil) // a launcher that has just restarted
	if c.hardware().Status.Running.CPU == nil {
		t.Error("the CPU is forgotten while the guest runs")
	}
}
