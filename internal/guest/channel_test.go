package guest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/explicit"
)

// TestReportIsSentAgain: a GuestPod that was made anew while the launcher's watch was down gets the whole status.
func TestReportIsSentAgain(t *testing.T) {
	l := live(t, serve(t, explicit.Plain(t, "guest")), newHypervisor(), nil)
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	l.mutex.Lock()
	l.down = true
	l.mutex.Unlock()
	l.CloseClientConnections()
	l.renew()
	l.mutex.Lock()
	l.down = false
	l.mutex.Unlock()
	status := l.becomes(t, "the state of the guest again", in(v1alpha1.GuestRunning))
	if status.Facts == nil {
		t.Error("the facts are not sent again")
	}
}

// TestLateAnswer: so does one that was made anew while the answer to a report to its predecessor was under way.
func TestLateAnswer(t *testing.T) {
	c := serve(t, explicit.Plain(t, "guest"))
	c.patched = func() {
		if pod, _ := c.now(); pod.UID != "another" && in(v1alpha1.GuestRunning)(pod.Status) {
			c.renew()
			time.Sleep(300 * time.Millisecond) // The launcher's watch sees the new one meanwhile.
		}
	}
	l := live(t, c, newHypervisor(), nil)
	for pod, changed := l.now(); pod.UID != "another"; pod, changed = l.now() {
		<-changed
	}
	if status := l.becomes(t, "the state of the guest again", in(v1alpha1.GuestRunning)); status.Facts == nil {
		t.Error("the facts are not sent again")
	}
}

// TestAPIAway: while the API server is away the guest lives, and then its newest state is reported.
func TestAPIAway(t *testing.T) {
	l := live(t, serve(t, explicit.Plain(t, "guest")), newHypervisor(), nil)
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	away := func(down bool) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.down = down
	}
	away(true)
	l.CloseClientConnections() // the watch too
	l.libvirt.becomes("suspend", hypervisor.Paused)
	l.libvirt.set(func() { l.libvirt.fails = errors.New("libvirtd is being restarted") })
	time.Sleep(100 * time.Millisecond)
	l.libvirt.set(func() { l.libvirt.fails = nil })
	if pod, _ := l.now(); pod.Status.Domain.State != v1alpha1.GuestRunning {
		t.Errorf("the domain is %+v", pod.Status.Domain)
	}
	away(false)
	l.becomes(t, "a guest that is paused", in(v1alpha1.GuestPaused))
	l.libvirt.becomes("resume", hypervisor.Running)
	l.becomes(t, "a guest that runs again", in(v1alpha1.GuestRunning))
}

// TestRequests: a start costs few requests, and a guest that runs costs none but the watch.
func TestRequests(t *testing.T) {
	l := live(t, serve(t, explicit.Plain(t, "guest")), newHypervisor(), nil)
	l.becomes(t, "a guest that runs", in(v1alpha1.GuestRunning))
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if diff := cmp.Diff(map[string]int{"GET": 3, "PATCH": 2}, l.requests); diff != "" { // VMI, GuestPod and its watch; facts and domain
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
