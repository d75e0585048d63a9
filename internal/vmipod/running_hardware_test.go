package vmipod

import (
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/render"
)

// reportRunning writes the report of the launcher about what libvirt runs.
func (c *cluster) reportRunning(change func(*v1alpha1.LiveHardware)) {
	c.Helper()
	front, err := render.ReadFrontend(c.guestPod().Spec.Hardware.Frontend)
	c.must(err)
	live := render.WantedHardware(c.vmi(), front)
	change(&live)
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Running = &v1alpha1.ReportedHardware{LiveHardware: live} })
}

func (c *cluster) hardware() *v1alpha1.GuestHardware { return read(c, key, &v1alpha1.GuestHardware{}) }

// TestRunningHardware: what libvirt runs is in the GuestHardware with digest, cause and time while the guest runs, whatever a launcher forges, and the record
// does not move.
func TestRunningHardware(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.Domain.CPU.MaxSockets = 4
	c := newCluster(t, vmi)
	c.runGuest()
	recorded := *c.hardware().Spec.Hardware.DeepCopy()
	if got := c.hardware().Status.Running; got != nil {
		t.Fatalf("before a report, %+v runs", got)
	}
	c.reportRunning(func(*v1alpha1.LiveHardware) {})
	c.reconcileAll()
	booted := c.hardware().Status.Running
	if booted == nil || booted.Digest != recorded.Digest || booted.Cause != render.CauseStarted || !booted.Time.Time.Equal(c.now) || booted.UID != c.vmi().UID {
		t.Fatalf("after the boot %+v runs, the record has digest %s", booted, recorded.Digest)
	}
	writes := len(c.writes)
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Running.Hindrance = "something else" })
	if c.reconcileAll(); len(c.writes) != writes {
		t.Errorf("a report of the same hardware costs the writes %v", c.writes[writes:])
	}
	c.now = c.now.Add(time.Minute)
	c.reportRunning(func(l *v1alpha1.LiveHardware) { l.VCPUs++ })
	c.reconcileAll()
	grown := c.hardware().Status.Running
	if grown.Digest == booted.Digest || grown.Cause != "vCPUs from 1 to 2" || !grown.Time.Time.Equal(c.now) || grown.VCPUs != 2 {
		t.Errorf("after a change %+v runs", grown)
	}
	for why, forge := range map[string]func(*v1alpha1.LiveHardware){
		"too many CPUs":                     func(l *v1alpha1.LiveHardware) { l.VCPUs = 4000 },
		"too little memory":                 func(l *v1alpha1.LiveHardware) { l.MemoryKiB = 1 },
		"a device that the guest never had": func(l *v1alpha1.LiveHardware) { l.Absent = []string{"disk.of-others"} },
	} {
		c.reportRunning(forge)
		c.reconcileAll()
		if got := c.hardware().Status.Running; got.Digest != grown.Digest || !got.Time.Equal(&grown.Time) {
			t.Errorf("%s: %+v runs", why, got)
		}
	}
	if got := c.hardware().Spec.Hardware; got.Digest != recorded.Digest {
		t.Errorf("the record has digest %s, was %s", got.Digest, recorded.Digest)
	}
	c.reportDomain(v1alpha1.GuestPoweredOff, "PoweredOff")
	c.endPod()
	if c.reconcileAll(); c.hardware().Status.Running != nil || !c.vmi().IsFinal() {
		t.Errorf("after the end, %+v runs", c.hardware().Status.Running)
	}
}
