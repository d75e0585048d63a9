package guest_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/explicit"
)

// TestReportIsSentAgain: a GuestPod that was recreated while the launcher's watch was closed gets the whole status.
func TestReportIsSentAgain(t *testing.T) {
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), newFakeHypervisor(), nil)
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	l.mutex.Lock()
	l.unavailable = true
	l.mutex.Unlock()
	l.CloseClientConnections()
	l.recreatePod()
	l.mutex.Lock()
	l.unavailable = false
	l.mutex.Unlock()
	status := l.waitForStatus(t, "the state of the guest again", inState(v1alpha1.GuestRunning))
	if status.Facts == nil {
		t.Error("the facts are not sent again")
	}
}

// TestLateAnswer: a GuestPod that was recreated before the answer to a report to its predecessor arrived gets the whole status.
func TestLateAnswer(t *testing.T) {
	c := serveVMI(t, explicit.Plain(t, "guest"))
	c.afterPatch = func() {
		if pod, _ := c.currentPod(); pod.UID != "another" && inState(v1alpha1.GuestRunning)(pod.Status) {
			c.recreatePod()
			c.waitUntil(t, "the launcher's watch has sent the new GuestPod", func() bool { return c.watchedUID == "another" })
		}
	}
	l := startTestGuest(t, c, newFakeHypervisor(), nil)
	for pod, changed := l.currentPod(); pod.UID != "another"; pod, changed = l.currentPod() {
		<-changed
	}
	if status := l.waitForStatus(t, "the state of the guest again", inState(v1alpha1.GuestRunning)); status.Facts == nil {
		t.Error("the facts are not sent again")
	}
}

// TestAPIAway: the guest continues to run while the API server is unavailable. Afterwards its newest state is reported.
func TestAPIAway(t *testing.T) {
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), newFakeHypervisor(), nil)
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	away := func(down bool) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.unavailable = down
	}
	away(true)
	l.CloseClientConnections() // ends the watch, too
	l.libvirt.update(func() { l.libvirt.stateErr = errors.New("libvirtd is being restarted") })
	l.libvirt.setState("suspend", hypervisor.Paused)
	l.libvirt.waitUntil(t, "the launcher has asked a libvirt that does not answer", func() bool { return l.libvirt.stateErrs > 0 })
	l.waitUntil(t, "a request is refused", func() bool { return l.refused > 0 })
	l.libvirt.update(func() { l.libvirt.stateErr = nil })
	if pod, _ := l.currentPod(); pod.Status.Domain.State != v1alpha1.GuestRunning {
		t.Errorf("the domain is %+v", pod.Status.Domain)
	}
	away(false)
	l.waitForStatus(t, "a guest that is paused", inState(v1alpha1.GuestPaused))
	l.libvirt.setState("resume", hypervisor.Running)
	l.waitForStatus(t, "a guest that runs again", inState(v1alpha1.GuestRunning))
}

// TestRequests: a start costs few requests, and a running guest costs only the watch.
func TestRequests(t *testing.T) {
	l := startTestGuest(t, serveVMI(t, explicit.Plain(t, "guest")), newFakeHypervisor(), nil)
	l.waitForStatus(t, "a guest that runs", inState(v1alpha1.GuestRunning))
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if diff := cmp.Diff(map[string]int{"GET": 3, "PATCH": 2}, l.requests); diff != "" { // VMI, GuestPod and its watch; facts and domain
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
