package e2e

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
)

// In these tests the test is the launcher: what a controller makes of what launchers write needs no libvirt.

// writes changes a VMI as the account of launchers does, again if the controller was faster.
func (s space) writes(name string, change func(vmi *unstructured.Unstructured) error, args ...string) {
	s.Helper()
	message := ""
	s.eventually("the launcher writes", func() bool {
		vmi := s.get("vmi", name)
		if err := change(vmi); err != nil {
			s.Fatal(err)
		}
		a := s.kubectl(mustJSON(s.T, vmi), append([]string{"replace", "-f", "-", launcher}, args...)...)
		message = a.stderr
		if a.err != nil && !strings.Contains(message, "Conflict") && !strings.Contains(message, "object has been modified") {
			s.Fatal(message)
		}
		return a.err == nil
	})
}

// phase is a launcher's report.
func (s space) phase(name string, phase v1.VirtualMachineInstancePhase) {
	s.Helper()
	s.writes(name, func(vmi *unstructured.Unstructured) error {
		past, _, err := unstructured.NestedSlice(vmi.Object, "status", "phaseTransitionTimestamps")
		if err != nil {
			return err
		}
		now := map[string]any{"phase": string(phase), "phaseTransitionTimestamp": time.Now().UTC().Format(time.RFC3339)}
		status, _ := vmi.Object["status"].(map[string]any)
		if status == nil { // the controller has made the VMI, and not yet said so in it
			status = map[string]any{}
			vmi.Object["status"] = status
		}
		status["phase"], status["nodeName"], status["phaseTransitionTimestamps"] = string(phase), "none", append(past, now)
		return nil
	}, "--subresource=status")
}

// guest waits for a VMI other than the one of a UID, and returns its UID.
func (s space) guest(name, not string) (uid string) {
	s.Helper()
	s.eventually("a guest", func() bool {
		uid = s.read("vmi", name, "{.metadata.uid}").stdout
		return uid != "" && uid != not
	})
	return uid
}

func (s space) statusOf(vm, path string) string {
	s.Helper()
	return s.must(s.read("vm", vm, "{.status."+path+"}")).stdout
}

// TestClaimedGuestThatNeverStarted: the VM stops when it is halted, although its launcher has died before it could report that the VMI failed, and
// starts once more.
func TestClaimedGuestThatNeverStarted(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	first := s.guest("demo", "")
	s.phase("demo", v1.Scheduled)
	s.writes("demo", func(vmi *unstructured.Unstructured) error {
		vmi.SetFinalizers(append(vmi.GetFinalizers(), v1.VirtualMachineInstanceFinalizer))
		return nil
	})
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`))
	s.eventually("the guest is to go", func() bool { return s.get("vmi", "demo").GetDeletionTimestamp() != nil })
	s.writes("demo", func(vmi *unstructured.Unstructured) error {
		var others []string
		for _, finalizer := range vmi.GetFinalizers() {
			if finalizer != v1.VirtualMachineInstanceFinalizer {
				others = append(others, finalizer)
			}
		}
		vmi.SetFinalizers(others)
		return nil
	})
	s.eventually("the VM has stopped", func() bool { return s.statusOf("demo", "printableStatus") == "Stopped" && !s.exists("vmi", "demo") })
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"Always"}}`))
	s.guest("demo", first)
}

// TestGuestsRunAgain: a VM whose VMI fails runs again after a pause, and the end is counted; one whose VMI succeeds does not.
func TestGuestsRunAgain(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", "runStrategy: Halted", "runStrategy: RerunOnFailure"))
	first := s.guest("demo", "")
	s.phase("demo", v1.Running)
	s.phase("demo", v1.Failed)
	second := s.guest("demo", first)
	if got := s.statusOf("demo", "startFailure.consecutiveFailCount") + " " + s.statusOf("demo", "startFailure.lastFailedVMIUID"); got != "1 "+first {
		t.Errorf("counted '%s', want '1 %s'", got, first)
	}
	s.phase("demo", v1.Running)
	s.phase("demo", v1.Succeeded)
	s.eventually("the VM has stopped", func() bool {
		return s.statusOf("demo", "printableStatus") == "Stopped" && s.statusOf("demo", "startFailure") == ""
	})
	if now := s.guest("demo", ""); now != second {
		t.Errorf("guest '%s' took the place of '%s', which succeeded", now, second)
	}
}

// TestStateChangeRequests: a VM with run strategy Manual is started, restarted and stopped by requests in its status, as docs/how-to/run-vms.md says.
func TestStateChangeRequests(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", "runStrategy: Halted", "runStrategy: Manual"))
	request := func(requests string) {
		t.Helper()
		s.must(s.kubectl("", "patch", "vm", "demo", "--subresource=status", "--type=merge", `-p={"status":{"stateChangeRequests":[`+requests+`]}}`))
	}
	const start = `{"action":"Start"}`
	request(start)
	first := s.guest("demo", "")
	s.phase("demo", v1.Running)
	request(`{"action":"Stop","uid":"` + first + `"},` + start)
	second := s.guest("demo", first)
	s.phase("demo", v1.Running)
	request(`{"action":"Stop","uid":"` + second + `"}`)
	s.eventually("the VM has stopped, and nothing is requested", func() bool {
		return s.statusOf("demo", "printableStatus") == "Stopped" && !s.exists("vmi", "demo") && s.statusOf("demo", "stateChangeRequests") == ""
	})
}

// TestGenerationOfTheGuest: the status has the generation of each VM that the controller has seen, also if the edit waits for a restart.
func TestGenerationOfTheGuest(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	first := s.guest("demo", "")
	s.phase("demo", v1.Running)
	generations := func(want string) func() bool {
		return func() bool {
			return s.statusOf("demo", "observedGeneration")+" "+s.statusOf("demo", "desiredGeneration") == want
		}
	}
	s.eventually("the guest is of the VM as it was created", generations("1 1"))
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"template":{"spec":{"hostname":"other"}}}}`))
	s.eventually("the VM was edited", generations("2 2"))
	s.must(s.kubectl("", "delete", "vmi", "demo", "--wait=false"))
	s.guest("demo", first)
	s.eventually("the next guest is of the VM as it is now", generations("2 2"))
	s.phase("demo", v1.Running)
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"RerunOnFailure"}}`))
	s.eventually("an edit beside the template waits for no restart", generations("3 3"))
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`))
	s.eventually("there is no guest", generations("4 4"))
}

// TestRestartRequired: an edit of a VM that runs is shown with its verdict until it is taken back, and is rolled out by a restart where the VM asks for that.
func TestRestartRequired(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo", running...))
	first := s.guest("demo", "")
	s.phase("demo", v1.Running)
	condition := func() string {
		return s.statusOf("demo", `conditions[?(@.type=="RestartRequired")].message`)
	}
	edit := func(patch string) {
		t.Helper()
		s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", "-p="+patch))
	}
	edit(`{"spec":{"template":{"spec":{"hostname":"other","domain":{"devices":{"watchdog":{"name":"dog","i6300esb":{}}}}}}}}`)
	s.eventually("the edit is shown", func() bool {
		shown := s.must(s.kubectl("", "get", "vm", "demo")).stdout
		return strings.Contains(condition(), "changes of domain.devices.watchdog, hostname take effect") && strings.Contains(condition(), "needs restart") &&
			strings.Contains(condition(), "watchdog 'dog' is added") && strings.Contains(shown, "RESTART-REQUIRED")
	})
	edit(`{"spec":{"template":{"spec":{"hostname":null,"domain":{"devices":{"watchdog":null}}}}}}`)
	s.eventually("nothing waits", func() bool { return condition() == "" })
	if now := s.guest("demo", ""); now != first {
		t.Errorf("guest '%s' took the place of '%s'", now, first)
	}
	edit(`{"metadata":{"annotations":{"kilnvm.io/rollout":"restart"}},"spec":{"template":{"spec":{"hostname":"other"}}}}`)
	second := s.guest("demo", first)
	s.phase("demo", v1.Running)
	s.eventually("the next guest is of the VM as it is now", func() bool {
		return condition() == "" && s.statusOf("demo", "stateChangeRequests") == "" &&
			s.statusOf("demo", "observedGeneration") == s.statusOf("demo", "desiredGeneration")
	})
	if now := s.guest("demo", ""); now != second {
		t.Errorf("guest '%s' took the place of '%s', which is of the VM as it is", now, second)
	}
	result := s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge",
		`-p={"metadata":{"annotations":{"kilnvm.io/rollout":"reboot"}},"spec":{"template":{"spec":{"hostname":"third"}}}}`))
	if want := "annotation 'kilnvm.io/rollout': 'reboot' has no effect; the value is 'restart'"; !strings.Contains(result.stderr, want) {
		t.Errorf("no warning '%s': %s", want, result.stderr)
	}
}

// TestVMsAreWarnedOf: a field that nothing can serve brings a warning that says what happens instead, at each write.
func TestVMsAreWarnedOf(t *testing.T) {
	s := newSpace(t)
	const want = "Warning: evictionStrategy 'LiveMigrate': live migration is not served; a drain shuts the guest down"
	created := s.must(s.kubectl(vm("demo", "domain:", "evictionStrategy: LiveMigrate\n      domain:"), "create", "-f", "-"))
	edited := s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"template":{"spec":{"hostname":"other"}}}}`))
	for what, result := range map[string]answer{"create": created, "edit": edited} {
		if !strings.Contains(result.stderr, want) {
			t.Errorf("%s: no warning %q: %s", what, want, result.stderr)
		}
	}
}
