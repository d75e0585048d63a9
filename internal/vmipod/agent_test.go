package vmipod

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestAgentConnected: the condition and status.guestOSInfo come with the agent, go with it, and never outlive the guest.
func TestAgentConnected(t *testing.T) {
	c := newCluster(t, explicitVMI())
	c.runGuest()
	connected := func(want bool) {
		t.Helper()
		c.reconcileAll()
		is := condition.Of(c.vmi(), v1.VirtualMachineInstanceAgentConnected)
		if (is != nil && is.Status == corev1.ConditionTrue) != want || (c.vmi().Status.GuestOSInfo.ID != "") != want {
			t.Errorf("want the agent connected: %t; %+v, %+v", want, is, c.vmi().Status.GuestOSInfo)
		}
		nic := c.vmi().Status.Interfaces[0]
		if (nic.InterfaceName == "eth0") != want || nic.IP != "10.1.0.7" {
			t.Errorf("want the agent connected: %t; the card is %+v", want, nic)
		}
		writes := len(c.writes)
		c.reconcileAll()
		if len(c.writes) != writes {
			t.Errorf("without a change %q was written", c.writes[writes:])
		}
	}
	says := func(agent *v1alpha1.GuestAgent) {
		c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Agent = agent })
	}
	agent := &v1alpha1.GuestAgent{OS: &v1alpha1.GuestOS{Name: "Debian\n", ID: "debian\x1b"}, Hostname: "shop",
		Interfaces: []v1alpha1.GuestInterface{{Name: "eth0", MAC: c.vmi().Status.Interfaces[0].MAC, IPs: []string{"10.96.0.1"}}}}
	connected(false)
	says(agent)
	connected(true)
	if is := c.vmi().Status.GuestOSInfo; is != (v1.VirtualMachineInstanceGuestOSInfo{Name: "Debian", ID: "debian"}) {
		t.Errorf("the system is %+v", is)
	}
	c.reportDomain(v1alpha1.GuestPaused, "PausedByUser")
	connected(true)
	says(nil)
	connected(false)
	says(agent)
	connected(true)
	c.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Domain = nil })
	connected(false)
	c.reportDomain(v1alpha1.GuestRunning, "")
	connected(true)
	c.reportDomain(v1alpha1.GuestPoweredOff, "")
	c.endPod()
	c.reconcileAll()
	if vmi := c.vmi(); vmi.Status.Phase != v1.Succeeded || condition.Of(vmi, v1.VirtualMachineInstanceAgentConnected) != nil {
		t.Errorf("phase %s, conditions %+v", vmi.Status.Phase, vmi.Status.Conditions)
	}
}
