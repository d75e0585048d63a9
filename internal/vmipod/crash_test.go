package vmipod

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endPod does what kubelet does to a pod that is deleted or whose container has ended.
func (c *cluster) endPod() {
	c.Helper()
	if found := c.pod(); found != nil && found.Status.Phase != corev1.PodSucceeded {
		c.writePodStatus(func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
	}
}

// checkPods checks that the VMI never had two recorded pods, and that a GuestPod names only the recorded one.
func (c *cluster) checkPods(pods map[string]bool) {
	c.Helper()
	vmi, guest := c.vmi(), c.guestPod()
	if vmi == nil {
		return
	}
	for uid := range vmi.Status.ActivePods {
		pods[string(uid)] = true
	}
	if len(pods) > 1 {
		c.Fatalf("the VMI has had the pods %v", pods)
	}
	if guest != nil && !observed.IsRecorded(vmi, guest.Spec.PodUID) {
		c.Fatalf("GuestPod names pod %s, and the VMI has %v", guest.Spec.PodUID, vmi.Status.ActivePods)
	}
}

// TestCrashes: a controller that dies after any of its writes of a whole life leaves what the next one brings to the same end.
func TestCrashes(t *testing.T) {
	life := func(t *testing.T, dies int) int {
		c := newCluster(t, explicitVMI())
		pods := map[string]bool{}
		c.fails = dies
		step := func() {
			for range 3 { // a discarded pod goes, and another one comes
				c.reconcileAll()
				c.checkPods(pods)
			}
		}
		step()
		c.bindPod("n1")
		step()
		c.reportFacts("pc-q35-10.0")
		step()
		c.reportDomain(v1alpha1.GuestRunning, "")
		step()
		if at := c.vmi().Status; at.Phase != v1.Running || len(at.ActivePods) != 1 || at.NodeName != "n1" {
			t.Fatalf("dies after write %d: %+v", dies, at)
		}
		c.must(c.WithWatch.Delete(t.Context(), c.vmi()))
		step()
		if found := c.pod(); found == nil || found.DeletionTimestamp == nil || c.vmi() == nil {
			t.Fatalf("dies after write %d: the pod is not deleted: %+v", dies, found)
		}
		c.reportDomain(v1alpha1.GuestPoweredOff, "PoweredOff")
		c.endPod()
		phase := c.lastPhase(step)
		if c.pod() != nil || c.vmi() != nil || phase != v1.Succeeded {
			t.Fatalf("dies after write %d: phase %s, left are pod %v, VMI %v", dies, phase, c.pod() != nil, c.vmi() != nil)
		}
		return len(c.writes)
	}
	writes := life(t, 0)
	if writes < 12 {
		t.Fatalf("a life has %d writes only", writes)
	}
	for dies := range writes {
		t.Run(fmt.Sprint(dies+1), func(t *testing.T) { life(t, dies+1) })
	}
}

// lastPhase calls step and returns the last phase that was written meanwhile.
func (c *cluster) lastPhase(step func()) (phase v1.VirtualMachineInstancePhase) {
	c.onStatus = func(object client.Object) {
		if vmi, is := object.(*v1.VirtualMachineInstance); is {
			phase = vmi.Status.Phase
		}
	}
	step()
	c.onStatus = nil
	return phase
}
