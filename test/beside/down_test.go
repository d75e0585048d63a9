package beside

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestKilnDown: while all of Kiln is down, guests run on, stop, start, restart and migrate, VMs are edited, and KubeVirt writes their statuses.
func TestKilnDown(t *testing.T) {
	s := newSpace(t)
	migrant, stopped, restarted := s.starts("migrant", ""), s.starts("stopped", ""), s.starts("restarted", "")
	s.vm("started", v1.RunStrategyHalted, "")
	s.kilnDown()
	t.Run("migrate", func(t *testing.T) {
		migrant.T = t
		migrant.migrates()
	})
	t.Run("stop", func(t *testing.T) {
		stopped.T = t
		stopped.must("stop", "stopped")
		stopped.gone("stopped")
		stopped.eventually("the status says so", func() (bool, any) {
			status := stopped.machine("stopped").Status
			return status.PrintableStatus == v1.VirtualMachineStatusStopped, status
		})
	})
	t.Run("start", func(t *testing.T) {
		s := s
		s.T = t
		s.must("start", "started")
		s.runs("started")
		s.eventually("the status says so", func() (bool, any) {
			status := s.machine("started").Status
			return status.Ready && status.PrintableStatus == v1.VirtualMachineStatusRunning, status
		})
	})
	t.Run("restart", func(t *testing.T) {
		restarted.T = t
		restarted.must("restart", "restarted")
		restarted.runs("restarted", string(restarted.was.UID))
	})
	t.Run("plug", func(t *testing.T) {
		migrant.T = t
		// No GuestPolicy denies, so nothing of KubeVirt waits for Kiln.
		migrant.patch("migrant", `{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`)
	})
	if refused := s.on.Refused(); len(refused) > 0 {
		t.Errorf("nodes' components were refused: %v", refused)
	}
	for _, name := range []string{"migrant", "started", "restarted"} {
		for _, condition := range s.guest(name).Status.Conditions {
			if condition.Type == v1.VirtualMachineInstanceSynchronized && condition.Status == corev1.ConditionFalse {
				t.Errorf("%s: %s", name, condition.Message)
			}
		}
	}
}

// refused is the annotation of a VM that admission would refuse.
func (s space) refused(name string) string {
	s.Helper()
	return s.machine(name).Annotations[v1alpha1.AnnotationRefused]
}

// twoCells is a VM that Kiln refuses and KubeVirt admits: only Kiln's launcher gives a guest two NUMA nodes.
func twoCells(name string, strategy v1.VirtualMachineRunStrategy) string {
	return strings.Replace(manifest(name, strategy, ""), "metadata: {}, spec", `metadata: {annotations: {kilnvm.io/numa-cells: "2"}}, spec`, 1)
}

// TestUnjudged: VMs that were created and edited while all of Kiln was down are found when it is back, whether they run or not, until they are mended.
func TestUnjudged(t *testing.T) {
	s := newSpace(t)
	if _, err := s.on.WouldCreate(t.Context(), s.in("vm"), s.parsed(twoCells("tried", v1.RunStrategyHalted))); err == nil {
		t.Fatal("Kiln admits what this test takes for a mistake")
	}
	s.vm("edited", v1.RunStrategyHalted, "")
	s.vm("right", v1.RunStrategyHalted, "")
	start := s.kilnDown()
	s.create(twoCells("stopped", v1.RunStrategyHalted))
	s.create(twoCells("running", v1.RunStrategyAlways))
	s.patch("edited", `{"spec": {"template": {"metadata": {"annotations": {"kilnvm.io/numa-cells": "2"}}}}}`)
	uid := string(s.runs("running").UID)
	start()
	for _, name := range []string{"stopped", "running", "edited"} {
		s.eventually(name+" is found", func() (bool, any) {
			return strings.Contains(s.refused(name), "numa-cells"), s.machine(name).Annotations
		})
	}
	if len(s.events(v1alpha1.ReasonWouldBeRefused)) == 0 {
		t.Error("no event tells about the VMs")
	}
	if text := s.refused("right"); text != "" {
		t.Errorf("a VM without a mistake has %q", text)
	}
	// virt-controller would remove a condition of the VM now: the VMI has none of this type.
	s.patch("running", `{"metadata": {"labels": {"touched": "yes"}}}`)
	time.Sleep(2 * time.Second)
	if s.refused("running") == "" || string(s.guest("running").UID) != uid {
		t.Errorf("the annotation is gone, or the guest was restarted: %v", s.machine("running").Annotations)
	}
	for _, name := range []string{"stopped", "running", "edited"} {
		s.patch(name, `{"spec": {"template": {"metadata": {"annotations": {"kilnvm.io/numa-cells": null}}}}}`)
		s.eventually(name+" is mended", func() (bool, any) { return s.refused(name) == "", s.machine(name).Annotations })
	}
	s.noFight()
}

// policy creates a GuestPolicy that refuses VMs named 'denied' in the test's namespace.
func (s space) policy(name, failurePolicy string) {
	s.Helper()
	text := fmt.Sprintf(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestPolicy", "metadata": {"name": %q}, "spec": {
		"matchConstraints": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": %q}}}, "failurePolicy": %q,
		"validations": [{"expression": "object.metadata.name != 'denied'"}]}}`, name, s.name, failurePolicy)
	if _, stderr, err := s.on.Kubectl(s.Context(), text, "create", "-f", "-"); err != nil {
		s.Fatal(err, stderr)
	}
	s.Cleanup(func() {
		if _, stderr, err := s.on.Kubectl(context.Background(), "", "delete", "guestpolicy", name, "--ignore-not-found"); err != nil {
			s.Error(err, stderr)
		}
	})
}

// enforced waits for the status of condition Enforced.
func (s space) enforced(name, status string) {
	s.Helper()
	if _, stderr, err := s.on.Kubectl(s.Context(), "", "wait", "guestpolicy/"+name, "--for=condition=Enforced="+status, "--timeout=1m"); err != nil {
		s.Fatal(err, stderr)
	}
}

// TestPolicyHolds: while a GuestPolicy denies, the API server refuses the VMs that it selects as long as all of Kiln is down, and no others. Without such a
// policy it refuses none.
func TestPolicyHolds(t *testing.T) {
	s, other := newSpace(t), newSpaceOn(t, shared)
	s.policy(s.name+"-skipped", "Ignore")
	s.enforced(s.name+"-skipped", "False")
	start := s.kilnDown()
	s.create(manifest("denied", v1.RunStrategyHalted, ""))
	start()
	s.eventually("the violation is found", func() (bool, any) {
		return strings.Contains(s.refused("denied"), s.name), s.machine("denied").Annotations
	})
	s.policy(s.name, "Fail")
	s.enforced(s.name, "True")
	start = s.kilnDown()
	s.eventually("the API server waits for Kiln", func() (bool, any) {
		_, err := s.on.WouldCreate(t.Context(), s.in("vm"), s.parsed(manifest("any", v1.RunStrategyHalted, "")))
		return err != nil && strings.Contains(err.Error(), "deny-"), err
	})
	other.vm("any", v1.RunStrategyHalted, "")
	if _, stderr, err := s.on.Kubectl(t.Context(), "", "delete", "guestpolicy", s.name, s.name+"-skipped"); err != nil {
		t.Fatal(err, stderr)
	}
	start()
	s.eventually("without the policy nothing waits", func() (bool, any) {
		out, stderr, err := s.on.Kubectl(t.Context(), "", "get", "validatingwebhookconfiguration/kiln-policies", "-o", "jsonpath={.webhooks[*].name}")
		return err == nil && !strings.Contains(out, "virtualmachines"), out + stderr
	})
	s.eventually("the violation is forgotten", func() (bool, any) { return s.refused("denied") == "", s.machine("denied").Annotations })
}

// kilnDown ends all of Kiln, until the function is called that it returns, or until the end of the test.
func (s space) kilnDown() (start func()) {
	s.Helper()
	s.ok(s.on.StopKiln())
	start = sync.OnceFunc(func() {
		if err := s.on.StartKiln(context.Background()); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(start)
	return start
}
