package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/workbench/startcheck"
)

// askWhy returns what 'kubectl kiln why' says of a VM, and its exit status.
func (s space) askWhy(name string, flags ...string) (answer startcheck.Answer, status int) {
	s.Helper()
	result := s.kiln(append([]string{"why", name, "-o", "json"}, flags...)...)
	if err := json.Unmarshal([]byte(result.stdout), &answer); err != nil {
		s.Fatalf("%v: %+v", err, result)
	}
	return answer, s.status(result)
}

// TestWhy: a halted VM, a claim and an instancetype that do not exist, with a real API server and Kiln's controller. No launcher runs guests here. A user who
// may only read VMs gets an answer with the rights that are missing.
func TestWhy(t *testing.T) {
	s := newSpace(t)
	s.create(vm("halted"))
	s.create(vm("claim", append(slices.Clone(running), "emptyDisk: {capacity: 1Gi}", "persistentVolumeClaim: {claimName: nowhere}")...))
	s.create(vm("size", append(slices.Clone(running), "instancetype: {name: small}", "instancetype: {name: nosuch}")...))
	for _, c := range []struct {
		name, step, cause string
		state             startcheck.State
		status            int
	}{
		{"halted", "guest requested", "is Halted", startcheck.NotRequested, 0},
		{"claim", "volumes", "PersistentVolumeClaim 'nowhere' does not exist", startcheck.Failed, 1},
		{"vm/size", "pinned", "'nosuch' does not exist", startcheck.Failed, 1},
	} {
		answer, status := s.askWhy(c.name)
		reached := startcheck.Step{}
		for _, step := range answer.Steps {
			if step.State != startcheck.Done {
				reached = step
				break
			}
		}
		if reached.Step != c.step || reached.State != c.state || !strings.Contains(answer.Cause, c.cause) || status != c.status {
			t.Errorf("%s: exit status %d, %+v", c.name, status, answer)
		}
	}
	if result := s.kiln("why", "absent"); s.status(result) != 2 || !strings.Contains(result.stderr, "neither a VirtualMachine nor") {
		t.Errorf("a VM that does not exist: %+v", result)
	}
	if result := s.kiln("why", "claim", "--as=nobody"); s.status(result) != 2 || !strings.Contains(result.stderr, "you may not get virtualmachines in namespace") {
		t.Errorf("a user without rights: %+v", result)
	}
	s.must(s.kubectl("", "create", "role", "looks", "--verb=get", "--resource=virtualmachines.kubevirt.io"))
	s.must(s.kubectl("", "create", "rolebinding", "looks", "--role=looks", "--user=looker"))
	answer, status := s.askWhy("claim", "--as=looker")
	var denied []string
	for _, step := range answer.Steps {
		if step.State == startcheck.Unknown {
			denied = append(denied, step.Detail)
		}
	}
	if text := strings.Join(denied, "\n"); status != 1 || !strings.Contains(text, "you may not get persistentvolumeclaims in namespace") ||
		!strings.Contains(text, "you may not get virtualmachineinstances in namespace") {
		t.Errorf("a user who may read VMs: exit status %d, %+v", status, answer)
	}
}
