package vmipod

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readCondition returns status and cause of a condition of the VMI.
func (c *cluster) readCondition(kind v1.VirtualMachineInstanceConditionType) (status corev1.ConditionStatus, why condition.Cause) {
	c.Helper()
	if found := condition.Of(c.vmi(), kind); found != nil {
		return found.Status, condition.Cause{Reason: found.Reason, Message: found.Message}
	}
	return "", condition.Cause{}
}

// expectRefusal checks that condition Synchronized of the VMI is False with this reason and message.
func (c *cluster) expectRefusal(why, reason, message string) {
	c.Helper()
	status, cause := c.readCondition(v1.VirtualMachineInstanceSynchronized)
	if status != corev1.ConditionFalse || cause.Reason != reason || !strings.Contains(cause.Message, message) {
		c.Errorf("%s: Synchronized is '%s', %+v; want %s: %s", why, status, cause, reason, message)
	}
}

// TestDeletedAtEachStage: a VMI that is deleted gets its final phase, and VMI and pod go.
func TestDeletedAtEachStage(t *testing.T) {
	for _, c := range []struct {
		why   string
		until func(*cluster)
		end   func(*cluster)
		phase v1.VirtualMachineInstancePhase
	}{
		{"before its pod is made", func(*cluster) {}, nil, v1.Failed},
		{"before a node is found", func(c *cluster) { c.reconcileAll() }, nil, v1.Failed},
		{"before its launcher has a GuestPod", func(c *cluster) { c.reconcileAll(); c.bindPod("n1") }, (*cluster).endPod, v1.Failed},
		{"before its launcher reports", func(c *cluster) { c.reconcileAll(); c.bindPod("n1"); c.reconcileAll() }, (*cluster).endPod, v1.Failed},
		{"before it runs", func(c *cluster) {
			c.reconcileAll()
			c.bindPod("n1")
			c.reconcileAll()
			c.reportFacts("pc-q35-10.0")
			c.reconcileAll()
		}, (*cluster).endPod, v1.Failed},
		{"while it runs, and the guest powers off", (*cluster).runGuest, func(c *cluster) { c.reportDomain(v1alpha1.GuestPoweredOff, ""); c.endPod() }, v1.Succeeded},
		{"while it runs, and the guest does not power off", (*cluster).runGuest, func(c *cluster) { c.reportDomain(v1alpha1.GuestDestroyed, ""); c.endPod() },
			v1.Succeeded},
		{"while it runs, and QEMU crashes", (*cluster).runGuest, func(c *cluster) { c.reportDomain(v1alpha1.GuestFailed, "Crashed"); c.endPod() }, v1.Failed},
		{"while it runs, and the launcher loses its rights", (*cluster).runGuest, (*cluster).endPod, v1.Succeeded},
	} {
		t.Run(c.why, func(t *testing.T) {
			on := newCluster(t, explicitVMI())
			c.until(on)
			on.must(on.WithWatch.Delete(t.Context(), on.vmi()))
			phase := on.lastPhase(func() { on.reconcileAll() })
			if c.end != nil {
				if on.vmi() == nil || on.vmi().IsFinal() || on.pod() == nil {
					t.Fatalf("the VMI has ended before its pod has")
				}
				c.end(on)
				phase = on.lastPhase(func() { on.reconcileAll() })
			}
			if phase != c.phase || on.vmi() != nil || on.pod() != nil {
				t.Errorf("phase %s, want %s; left are VMI %v, pod %v", phase, c.phase, on.vmi(), on.pod())
			}
		})
	}
}

// TestEndStays: a VMI that has ended keeps its phase and cause while it, its pod and its GuestPod go.
func TestEndStays(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.runGuest()
	on.reportDomain(v1alpha1.GuestFailed, "Crashed")
	on.endPod()
	on.reconcileAll()
	if _, why := on.readCondition(v1.VirtualMachineInstanceReady); on.vmi().Status.Phase != v1.Failed || why.Reason != v1alpha1.ReasonCrashed {
		t.Fatalf("the VMI ends as %s: %+v", on.vmi().Status.Phase, why)
	}
	on.must(on.WithWatch.Delete(t.Context(), on.vmi()))
	var written []v1.VirtualMachineInstanceStatus
	on.onStatus = func(object client.Object) {
		if vmi, is := object.(*v1.VirtualMachineInstance); is {
			written = append(written, vmi.Status)
		}
	}
	if on.reconcileAll(); on.vmi() != nil || on.pod() != nil || len(written) > 0 {
		t.Errorf("left are VMI %v, pod %v; the status was written as %+v", on.vmi(), on.pod(), written)
	}
}

// TestRanUnseen: a guest that was started and has ended while no controller looked was in phase Running, from the start of its container on.
func TestRanUnseen(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.reconcileAll()
	on.bindPod("n1")
	on.reconcileAll()
	on.reportFacts("pc-q35-10.0")
	on.reconcileAll()
	on.reportDomain(v1alpha1.GuestPoweredOff, "PoweredOff")
	started := metav1.NewTime(on.now.Add(-time.Hour).UTC().Truncate(time.Second))
	on.writePodStatus(func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "compute", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: started}}}}
	})
	on.endPod()
	on.reconcileAll()
	var running []time.Time
	for _, at := range on.vmi().Status.PhaseTransitionTimestamps {
		if at.Phase == v1.Running {
			running = append(running, at.PhaseTransitionTimestamp.UTC())
		}
	}
	if got := on.vmi().Status.Phase; got != v1.Succeeded || len(running) != 1 || !running[0].Equal(started.Time) {
		t.Errorf("phase %s, Running at %v; want Succeeded, and %s once", got, running, started)
	}
}

// TestHardwareOfARunningGuest: a GuestPod that is made anew while the guest runs changes nothing in the record, also where the next boot is to have new
// hardware.
func TestHardwareOfARunningGuest(t *testing.T) {
	vmi := explicitVMI()
	vmi.Annotations = map[string]string{v1alpha1.AnnotationHardware: v1alpha1.HardwareLatest}
	on := newCluster(t, vmi)
	on.runGuest()
	hardware := func() *v1alpha1.GuestHardware {
		return read(on, client.ObjectKeyFromObject(vmi), &v1alpha1.GuestHardware{})
	}
	booted := hardware()
	booted.Status.LastBoot = &v1alpha1.HardwareBoot{UID: on.vmi().UID, Time: metav1.NewTime(on.now)}
	on.must(on.Status().Update(t.Context(), booted))
	on.must(on.WithWatch.Delete(t.Context(), on.guestPod()))
	on.reconcileAll()
	on.reportFacts("pc-q35-11.0")
	on.reconcileAll()
	if got := hardware().Spec.Hardware; on.guestPod().Spec.Hardware == nil || got == nil || got.Machine != "pc-q35-10.0" {
		t.Errorf("the GuestPod has %v, the record %+v", on.guestPod().Spec.Hardware, got)
	}
}

// TestForcedDeletion: a pod that is deleted with force, and whose finalizer holds it, keeps the VMI from another one until kubelet has ended it, or its
// node is declared off.
func TestForcedDeletion(t *testing.T) {
	for _, c := range []struct {
		why    string
		ends   func(*cluster)
		reason string
	}{
		{"kubelet ends it", func(c *cluster) { c.reportDomain(v1alpha1.GuestDestroyed, ""); c.endPod() }, v1alpha1.ReasonPodDeleted},
		{"its node is declared off, and does not answer", func(c *cluster) {
			c.taintNode(corev1.ConditionTrue)
			if c.reconcileAll(); c.pod() == nil || c.vmi().IsFinal() {
				c.Error("the taint on a node that answers has ended the VMI: its guest runs")
			}
			c.taintNode(corev1.ConditionUnknown)
		}, v1alpha1.ReasonNodeLost},
	} {
		on := newCluster(t, explicitVMI())
		on.runGuest()
		on.must(on.WithWatch.Delete(t.Context(), on.pod()))
		on.reconcileAll()
		if on.pod() == nil || on.vmi().IsFinal() {
			t.Fatalf("%s: the pod is gone, or the VMI has ended, while the guest runs", c.why)
		}
		on.now = on.now.Add(time.Hour)
		on.reconcileAll()
		if status, why := on.readCondition(v1.VirtualMachineInstanceReady); status != corev1.ConditionFalse || why.Reason != v1alpha1.ReasonNodeLost {
			t.Errorf("%s: a node that has not ended the pod for an hour: Ready %s, %+v", c.why, status, why)
		}
		c.ends(on)
		on.reconcileAll()
		if _, why := on.readCondition(v1.VirtualMachineInstanceReady); on.pod() != nil || on.vmi().Status.Phase != v1.Failed || why.Reason != c.reason {
			t.Errorf("%s: pod %v, phase %s, %+v; want reason %s", c.why, on.pod(), on.vmi().Status.Phase, why, c.reason)
		}
		if on.reconcileAll(); on.pod() != nil {
			t.Errorf("%s: the VMI has another pod after its end", c.why)
		}
	}
}

// taintNode taints the node as out of service, with a status of its condition Ready.
func (c *cluster) taintNode(ready corev1.ConditionStatus) {
	c.Helper()
	off := read(c, client.ObjectKey{Name: "n1"}, &corev1.Node{})
	off.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	c.must(c.Status().Update(c.Context(), off))
	off.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	c.must(c.Update(c.Context(), off))
}

// TestPodsOfOthers: a pod of the name that the controller did not make never counts.
func TestPodsOfOthers(t *testing.T) {
	owner := func(name, uid string) []metav1.OwnerReference {
		vmi := explicitVMI()
		vmi.Name, vmi.UID = name, "0000-vmi"
		ref := metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)
		ref.UID = v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{UID: "0000-vmi"}}.UID
		if uid != "" {
			ref.UID = "0000-earlier"
		}
		return []metav1.OwnerReference{*ref}
	}
	ofOther := owner("a", "")
	ofOther[0].Kind = "VirtualMachine"
	for _, c := range []struct {
		why     string
		owners  []metav1.OwnerReference
		refused bool // the VMI waits for its owner
		stays   bool
	}{
		{"nobody's", nil, true, true},
		{"of an owner of another kind with the UID of the VMI", ofOther, true, true},
		{"forged as the VMI's", owner("a", ""), false, false},
		{"of a predecessor that has not gone", owner("a", "earlier"), false, true},
	} {
		forged := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: podKey.Namespace, Name: podKey.Name, UID: "forged", OwnerReferences: c.owners,
			Finalizers: []string{v1alpha1.FinalizerGuestPod}}, Spec: corev1.PodSpec{NodeName: "n1"}}
		on := newCluster(t, explicitVMI(), forged)
		on.reconcileAll()
		on.reconcileAll()
		if observed.IsRecorded(on.vmi(), "forged") || on.guestPod() != nil {
			t.Fatalf("%s: the pod counts: %+v", c.why, on.vmi().Status)
		}
		if stays := on.pod() != nil && on.pod().UID == "forged"; stays != c.stays {
			t.Errorf("%s: the pod stays: %t", c.why, stays)
		}
		if c.refused {
			on.expectRefusal(c.why, v1alpha1.ReasonNameTaken, podKey.Name)
			on.must(on.WithWatch.Delete(t.Context(), on.vmi()))
			on.onStatus = func(object client.Object) {
				if vmi, is := object.(*v1.VirtualMachineInstance); is && len(vmi.Status.ActivePods) > 0 {
					t.Errorf("%s: the pod counts at the end: %v", c.why, vmi.Status.ActivePods)
				}
			}
			if on.reconcileAll(); on.vmi() != nil || on.pod() == nil {
				t.Errorf("%s: VMI %v, pod %v after its deletion", c.why, on.vmi(), on.pod())
			}
			continue
		}
		if !c.stays && len(on.vmi().Status.ActivePods) != 1 {
			t.Errorf("%s: the VMI has no pod of its own", c.why)
		}
	}
}

// TestForgedAccount: an account or Role of the name that somebody else made is not used.
func TestForgedAccount(t *testing.T) {
	on := newCluster(t, explicitVMI(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: podKey.Namespace, Name: podKey.Name}})
	on.reconcileAll()
	on.expectRefusal("an account of a tenant", v1alpha1.ReasonNameTaken, "a ServiceAccount '"+podKey.Name+"' exists")
	if on.pod() != nil {
		t.Error("there is a pod with that account")
	}
}

// TestForgedFacts: facts that no host has are refused with their field, and nothing is recorded. Correct facts that are reported later are used.
func TestForgedFacts(t *testing.T) {
	for _, c := range []struct {
		why, message string
		facts        v1alpha1.GuestFacts
	}{
		{"a machine of another kind", "status.facts.machine", v1alpha1.GuestFacts{Machine: "microvm"}},
		{"an impossible block size", "status.facts.blockSizes[a]", v1alpha1.GuestFacts{BlockSizes: map[string]v1alpha1.ReportedBlockSize{"a": {Logical: 3}}}},
		{"an impossible NUMA node", "status.facts.numa[0]", v1alpha1.GuestFacts{NUMA: []v1alpha1.ReportedNUMANode{{ID: -1}}}},
	} {
		on := newCluster(t, explicitVMI())
		on.reconcileAll()
		on.bindPod("n1")
		on.reconcileAll()
		on.writeGuestPodStatus(func(s *v1alpha1.GuestPodStatus) { s.Facts = &c.facts })
		on.reconcileAll()
		on.expectRefusal(c.why, v1alpha1.ReasonInvalidFacts, c.message)
		// It also says that its guest runs, which it cannot.
		on.reportDomain(v1alpha1.GuestRunning, "")
		on.reconcileAll()
		if read(on, key, &v1alpha1.GuestHardware{}).Spec.Hardware != nil || on.guestPod().Spec.Hardware != nil || on.vmi().Status.Phase != v1.Scheduled {
			t.Errorf("%s: something is recorded, phase %s", c.why, on.vmi().Status.Phase)
		}
		on.writes = nil
		on.reportFacts("pc-q35-10.0")
		on.reconcileAll()
		if on.guestPod().Spec.Hardware != nil {
			t.Errorf("%s: stage 2 runs as often as the launcher writes", c.why)
		}
		on.now = on.now.Add(longestInterval)
		on.reconcileAll()
		if on.guestPod().Spec.Hardware == nil {
			t.Errorf("%s: facts that are right are not used", c.why)
		}
	}
}
