package subresources

import (
	"net/http"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// strategy is the run strategy of a VM.
func (s space) strategy(name string) v1.VirtualMachineRunStrategy {
	s.Helper()
	strategy, err := s.vm(name).RunStrategy()
	if err != nil {
		s.Fatal(err)
	}
	return strategy
}

// TestAlways: start and stop of a VM that is Halted write its spec, as in KubeVirt; a restart does not.
func TestAlways(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyHalted)
	generation := s.vm("web").Generation
	if answer := s.expect(http.MethodPut, "vm/web/start", `{"dryRun":["All"]}`, 202, ""); answer.text != "" {
		t.Errorf("the body is '%s', want none, as KubeVirt's", answer.text)
	}
	if got := s.vm("web"); got.Generation != generation {
		t.Error("a dry run has changed the VM")
	}
	s.expect(http.MethodPut, "vm/web/start", "", 202, "")
	first := s.vmi("web", nil)
	if got := s.strategy("web"); got != v1.RunStrategyAlways {
		t.Errorf("the run strategy is %s after the start", got)
	}
	s.phase("web", v1.Running)
	s.expect(http.MethodPut, "vm/web/start", "", 409, "VM is already running")
	s.expect(http.MethodPut, "vm/web/restart", "{}", 202, "")
	second := s.vmi("web", first)
	s.phase("web", v1.Running)
	s.expect(http.MethodPut, "vm/web/restart", `{"gracePeriodSeconds":0}`, 202, "")
	s.vmi("web", second)
	s.expect(http.MethodPut, "vm/web/restart", `{"gracePeriodSeconds":5}`, 400, "only 0 is supported")
	s.phase("web", v1.Running)
	s.expect(http.MethodPut, "vm/web/stop", `{"gracePeriod":3}`, 202, "")
	s.gone("web")
	if got := s.strategy("web"); got != v1.RunStrategyHalted {
		t.Errorf("the run strategy is %s after the stop", got)
	}
	s.expect(http.MethodPut, "vm/web/restart", "", 409, "Halted does not support manual restart requests")
	s.expect(http.MethodPut, "vm/web/start", `{"paused":true}`, 202, "")
	if got := s.vmi("web", nil); got.Spec.StartStrategy == nil || *got.Spec.StartStrategy != v1.StartStrategyPaused {
		t.Errorf("the VMI of a paused start has startStrategy %v", got.Spec.StartStrategy)
	}
}

// TestManual: start and stop of a VM with run strategy Manual do not change its spec.
func TestManual(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyManual)
	generation := s.vm("web").Generation
	s.expect(http.MethodPut, "vm/web/stop", "", 409, "VM is not running")
	s.expect(http.MethodPut, "vm/web/start", "", 202, "")
	first := s.vmi("web", nil)
	s.phase("web", v1.Running)
	s.expect(http.MethodPut, "vm/web/restart", "", 202, "")
	second := s.vmi("web", first)
	s.phase("web", v1.Running)
	s.expect(http.MethodPut, "vm/web/stop", "", 202, "")
	s.gone("web")
	s.expect(http.MethodGet, "vm/web/start", "", 202, "")
	s.vmi("web", second)
	if got := s.vm("web"); got.Generation != generation || *got.Spec.RunStrategy != v1.RunStrategyManual {
		t.Errorf("the spec was changed: generation %d, was %d, run strategy %s", got.Generation, generation, *got.Spec.RunStrategy)
	}
}

// TestOtherStrategies: what is refused, and what Once and RerunOnFailure do.
func TestOtherStrategies(t *testing.T) {
	s := newSpace(t)
	s.make("once", v1.RunStrategyOnce)
	s.vmi("once", nil)
	s.expect(http.MethodPut, "vm/once/restart", "", 409, "Once does not support manual restart requests")
	s.expect(http.MethodPut, "vm/once/stop", "", 202, "")
	s.gone("once")
	if got := s.strategy("once"); got != v1.RunStrategyHalted {
		t.Errorf("Once that was stopped has run strategy %s", got)
	}
	s.make("rerun", v1.RunStrategyRerunOnFailure)
	first := s.vmi("rerun", nil)
	s.phase("rerun", v1.Succeeded)
	s.expect(http.MethodPut, "vm/rerun/start", "", 202, "")
	s.vmi("rerun", first)
	s.expect(http.MethodPut, "vm/rerun/stop", "", 202, "")
	s.gone("rerun")
	s.make("always", v1.RunStrategyAlways)
	s.expect(http.MethodPut, "vm/always/start", "", 409, "")
	s.expect(http.MethodPut, "vm/absent/start", "", 404, `virtualmachine.kubevirt.io \"absent\" not found`)
}

// TestGracePeriod: a grace period that is given with a stop is the VMI's, and the VMI takes nothing else from anybody.
func TestGracePeriod(t *testing.T) {
	s := newSpace(t)
	s.make("web", v1.RunStrategyManual)
	s.expect(http.MethodPut, "vm/web/start", "", 202, "")
	s.vmi("web", nil)
	s.phase("web", v1.Running)
	s.kubectl("", "patch", "vmi", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers","value":["kilnvm.io/test"]}]`)
	defer s.kubectl("", "patch", "vmi", "web", "--type=json", `-p=[{"op":"remove","path":"/metadata/finalizers"}]`)
	s.expect(http.MethodPut, "vm/web/stop", `{"gracePeriod":-1}`, 400, "must not be negative")
	s.expect(http.MethodPut, "vm/web/stop", `{"gracePeriod":7}`, 202, "")
	s.eventually("the VMI is being deleted with the grace period", func() bool {
		vmi := read[v1.VirtualMachineInstance](s, "vmi", "web")
		return vmi.DeletionTimestamp != nil && vmi.Spec.TerminationGracePeriodSeconds != nil && *vmi.Spec.TerminationGracePeriodSeconds == 7
	})
}
