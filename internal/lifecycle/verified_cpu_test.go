package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

const recordedCPU = `{"schemaVersion":2,"machine":"q35-1","cpu":{"requested":"host-model","model":"EPYC","features":["avx2","sse2"],` +
	`"topology":{"sockets":1,"cores":1,"threads":1}}}`

// runCPU makes a guest run with the recorded CPU, and writes what libvirt runs for a VMI.
func (c *testCluster) runCPU(running *v1alpha1.HardwareRunning) {
	c.Helper()
	c.reconcileRepeatedly()
	c.writeRecord(recordedCPU)
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	if running.UID == "" {
		running.UID = c.vmi().UID
	}
	hardware := c.hardware()
	hardware.Status.Running = running
	if err := c.Status().Update(c.Context(), hardware); err != nil {
		c.Fatal(err)
	}
	c.reconcileRepeatedly()
}

// changedEvents returns the warnings about changed hardware.
func (c *testCluster) changedEvents() (texts []string) {
	for range len(c.eventRecorder().Events) {
		if text := <-c.eventRecorder().Events; strings.HasPrefix(text, "Warning HardwareChanged") {
			texts = append(texts, text)
		}
	}
	return texts
}

// TestCPUIsVerified: the record is marked once libvirt runs the guest with the recorded CPU. Another CPU is one event, and a report of another guest nothing.
func TestCPUIsVerified(t *testing.T) {
	exact := &v1alpha1.ReportedCPU{Model: "EPYC", Features: []string{"avx2", "sse2"}}
	for why, test := range map[string]struct {
		running  v1alpha1.HardwareRunning
		verified bool
		event    string
	}{
		"exactly":            {v1alpha1.HardwareRunning{CPU: exact}, true, ""},
		"without a report":   {v1alpha1.HardwareRunning{}, false, ""},
		"of another guest":   {v1alpha1.HardwareRunning{CPU: exact, UID: "another"}, false, ""},
		"with a feature":     {v1alpha1.HardwareRunning{CPU: &v1alpha1.ReportedCPU{Model: "EPYC", Features: []string{"avx2", "hle", "sse2"}}}, false, "with hle"},
		"as nobody reports":  {v1alpha1.HardwareRunning{CPU: &v1alpha1.ReportedCPU{Model: "<", Features: []string{"sse2"}}}, false, ""},
		"without a feature":  {v1alpha1.HardwareRunning{CPU: &v1alpha1.ReportedCPU{Model: "EPYC", Features: []string{"sse2"}}}, false, "without avx2"},
		"with another model": {v1alpha1.HardwareRunning{CPU: &v1alpha1.ReportedCPU{Model: "Dhyana"}}, false, "from 'EPYC' to 'Dhyana', without avx2, sse2"},
	} {
		t.Run(why, func(t *testing.T) {
			c := newCluster(t, newVM(v1.RunStrategyAlways))
			c.T = t
			c.runCPU(&test.running)
			if got := c.hardware().Spec.Hardware; got.CPU.Verified != test.verified || got.Machine != "q35-1" {
				t.Errorf("the CPU is %+v of machine '%s', want verified %v", got.CPU, got.Machine, test.verified)
			}
			events := c.changedEvents()
			if test.event == "" && len(events) > 0 || test.event != "" && (len(events) != 1 || !strings.HasSuffix(events[0], test.event)) {
				t.Errorf("events %q, want '%s'", events, test.event)
			}
		})
	}
}
