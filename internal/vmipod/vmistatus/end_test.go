package vmistatus

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// evicted is the message about a pod that the Eviction API has ended.
const evicted = "the pod was evicted by the API, as 'kubectl drain' does (why)"

// TestEnds: the final phase of a VMI, and why.
func TestEnds(t *testing.T) {
	reason := func(reason, message string) func(*observed.Objects) {
		return func(s *observed.Objects) {
			s.Pod.Status.Phase, s.Pod.Status.Reason, s.Pod.Status.Message = corev1.PodFailed, reason, message
		}
	}
	exited := func(reason string, code int32, message string) func(*observed.Objects) {
		return func(s *observed.Objects) {
			s.Pod.Status.Phase = corev1.PodFailed
			s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message}}}}
		}
	}
	disrupted := func(reason string) func(*observed.Objects) {
		return func(s *observed.Objects) {
			s.Pod.Status.Phase = corev1.PodFailed
			s.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "why"}}
		}
	}
	gone := func(change func(*observed.Objects)) func(*observed.Objects) {
		return func(s *observed.Objects) {
			change(s)
			s.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
		}
	}
	off := v1alpha1.GuestPoweredOff
	for _, c := range []struct {
		why     string
		state   v1alpha1.GuestDomainState
		do      func(*observed.Objects)
		deleted bool
		phase   v1.VirtualMachineInstancePhase
		reason  string
		message string
	}{
		{"the guest powers off", off, nil, false, v1.Succeeded, "PoweredOff", ""},
		{"its owner stops it", off, nil, true, v1.Succeeded, "PoweredOff", ""},
		{"its owner stops it, and it hangs", v1alpha1.GuestDestroyed, nil, true, v1.Succeeded, "Stopped", "did not power off"},
		{"somebody destroys it", v1alpha1.GuestDestroyed, nil, false, v1.Failed, "Destroyed", ""},
		{"QEMU crashes", v1alpha1.GuestFailed, nil, false, v1.Failed, "Crashed", ""},
		{"the node has no memory", off, reason("Evicted", "low on memory"), false, v1.Failed, "Evicted", "low on memory"},
		{"the node has no memory while its owner stops it", off, reason("Evicted", "low on memory"), true, v1.Succeeded, "PoweredOff", ""},
		{"the node shuts down", off, reason("Terminated", "node shutdown"), false, v1.Failed, "EndedWithHost", "node shutdown"},
		{"kubelet rejects the pod", "", reason("OutOfmemory", "too little"), false, v1.Failed, "PodRejected", "too little"},
		{"a deadline", "", reason("DeadlineExceeded", "60 s"), false, v1.Failed, "DeadlineExceeded", "60 s"},
		{"the pod is drained", off, disrupted("EvictionByEvictionAPI"), false, v1.Failed, "Disrupted", evicted},
		{"the node was deleted", v1alpha1.GuestRunning, disrupted("DeletionByPodGC"), false, v1.Failed, "NodeLost", "why"},
		{"the container has no memory", v1alpha1.GuestFailed, exited("OOMKilled", 137, ""), false, v1.Failed, "OOMKilled", "memory limit"},
		{"the launcher fails", "", exited("Error", 1, "no libvirtd\n"), false, v1.Failed, "PodEnded", "(Error, exit code 1): no libvirtd"},
		{"the launcher dies while the guest runs", v1alpha1.GuestRunning, exited("Error", 137, ""), false, v1.Failed, "PodEnded", "exit code 137"},
		{"what a killed launcher wrote last is no cause", v1alpha1.GuestRunning, exited("Error", 137, "error: no /dev/kvm"), false, v1.Failed, "PodEnded",
			"(Error, exit code 137)$"},
		{"somebody deletes the pod, and the guest powers off", off, gone(exited("Completed", 0, "")), false, v1.Failed, "PodDeleted", "somebody deleted the pod"},
		{"somebody deletes the pod with force", v1alpha1.GuestRunning, gone(exited("Error", 137, "")), false, v1.Failed, "PodDeleted", "exit code 137"},
		{"the pod of a guest that is stopped is deleted", off, gone(exited("Completed", 0, "")), true, v1.Succeeded, "PoweredOff", ""},
		{"an evicted pod is deleted too", off, gone(disrupted("EvictionByEvictionAPI")), false, v1.Failed, "Disrupted", evicted},
		{"a launcher reports an eviction", v1alpha1.GuestFailed, func(s *observed.Objects) { s.GuestPod.Status.Domain.Reason = "Disrupted" }, false,
			v1.Failed, "Crashed", ""},
		{"the pod is gone", v1alpha1.GuestRunning, func(s *observed.Objects) { s.Pod = nil }, false, v1.Failed, "PodGone", "removed by hand"},
		{"the pod is deleted before it has a node", "", func(s *observed.Objects) { s.Pod.Spec.NodeName = "" }, false, v1.Failed, "PodGone", "before a node"},
		{"deleted before it starts", "", exited("Error", 1, ""), true, v1.Failed, "NeverStarted", "no such image"},
	} {
		phase := v1.Running
		if c.state == "" {
			phase = v1.Scheduled
		}
		s := scheduled(phase)
		condition.SetSynchronized(s.VMI, corev1.ConditionFalse, condition.Cause{Reason: "Any", Message: "no such image"})
		s.Pod.Status.Phase = corev1.PodSucceeded
		if c.state != "" {
			s.GuestPod.Status.Domain = &v1alpha1.GuestDomain{State: c.state}
		}
		if c.deleted {
			s.VMI.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		if c.do != nil {
			c.do(&s)
		}
		ended, why := finalPhase(s)
		matches := strings.Contains(why.Message, c.message)
		if last, whole := strings.CutSuffix(c.message, "$"); whole {
			matches = strings.HasSuffix(why.Message, last)
		}
		if ended != c.phase || why.Reason != c.reason || !matches {
			t.Errorf("%s: phase %s, %+v; want %s, %s: %s", c.why, ended, why, c.phase, c.reason, c.message)
		}
	}
}
