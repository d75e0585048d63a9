package vmistatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// noon is the time of these tests.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scheduled returns the objects of a VMI whose pod has a node and whose GuestPod has the hardware.
func scheduled(phase v1.VirtualMachineInstancePhase) observed.Objects {
	vmi := explicitVMI()
	vmi.Status = v1.VirtualMachineInstanceStatus{Phase: phase, NodeName: "n1", ActivePods: map[types.UID]string{"pod": "n1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: observed.PodKey(key).Name, UID: "pod",
		Finalizers:      []string{v1alpha1.FinalizerGuestPod},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)}}}
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	guest := &v1alpha1.GuestPod{Spec: v1alpha1.GuestPodSpec{PodUID: "pod", Hardware: &v1alpha1.GuestPodHardware{Digest: "d"}}}
	return observed.Objects{Key: key, VMI: vmi, Pod: pod, GuestPod: guest}
}

// write writes a report without further fields into the VMI.
func write(s observed.Objects) { Report{Objects: s}.Write(s.VMI, noon) }

func waitingFor(reason, message string) func(*observed.Objects) {
	return func(s *observed.Objects) {
		waits := &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: waits}}}
	}
}

func unscheduled(reason string) func(*observed.Objects) {
	return func(s *observed.Objects) {
		s.Pod.Spec.NodeName, s.VMI.Status.NodeName, s.VMI.Status.Phase = "", "", v1.Scheduling
		s.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "0/2 nodes fit"}}
	}
}

// TestWaiting: why a guest does not start, in the words of scheduler, kubelet, controller and launcher.
func TestWaiting(t *testing.T) {
	launcher := func(reason, message string) func(*observed.Objects) {
		return func(s *observed.Objects) {
			s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			s.GuestPod.Status.Refusal = &v1alpha1.GuestRefusal{Reason: reason, Message: message}
		}
	}
	own := &condition.Cause{Reason: v1alpha1.ReasonInvalidFacts, Message: "machine"}
	for _, c := range []struct {
		why     string
		do      func(*observed.Objects)
		refusal *condition.Cause
		later   time.Duration // after noon
		want    condition.Cause
		after   time.Duration
	}{
		{"nothing is known yet", func(*observed.Objects) {}, nil, 0, condition.Cause{}, QuietStart},
		{"no node has room", unscheduled("Unschedulable"), nil, 0, condition.Cause{Reason: "Unschedulable", Message: "0/2 nodes fit"}, 0},
		{"it is gated", unscheduled("SchedulingGated"), nil, 0, condition.Cause{Reason: "SchedulingGated", Message: "0/2 nodes fit"}, 0},
		{"the scheduler failed", unscheduled("SchedulerError"), nil, 0, condition.Cause{Reason: "Unschedulable", Message: "0/2 nodes fit"}, 0},
		{"an image is pulled", waitingFor("ContainerCreating", ""), nil, 10 * time.Second, condition.Cause{}, QuietStart - 10*time.Second},
		{"a clock is behind", waitingFor("ContainerCreating", ""), nil, -time.Hour, condition.Cause{}, QuietStart},
		{"an image cannot be pulled", waitingFor("ErrImagePull", "not found"), nil, 0, condition.Cause{Reason: "ErrImagePull", Message: "not found"}, 0},
		{"kubelet waits", waitingFor("ImagePullBackOff", "back-off"), nil, 0, condition.Cause{Reason: "ImagePullBackOff", Message: "back-off"}, 0},
		{"a Secret is missing", waitingFor("CreateContainerConfigError", "secret \"x\" not found"), nil, 0,
			condition.Cause{Reason: "CreateContainerConfigError", Message: "secret \"x\" not found"}, 0},
		{"the launcher refuses", launcher("NotBindable", "no disk"), nil, 0, condition.Cause{Reason: "NotBindable", Message: "no disk"}, 0},
		{"the launcher refuses with an invalid reason", launcher("not a reason\n", "a\nb\x1b[31m"), nil, 0,
			condition.Cause{Reason: "StartFailed", Message: "a b [31m"}, 0},
		{"the controller refuses, and the launcher too", launcher("NotBindable", "no disk"), own, 0, *own, 0},
	} {
		s := scheduled(v1.Scheduled)
		c.do(&s)
		is := s.VMI.DeepCopy()
		after := Report{Objects: s, Refusal: c.refusal}.Write(is, noon.Add(c.later))
		var refusal condition.Cause
		if found := condition.Of(is, v1.VirtualMachineInstanceSynchronized); found != nil && found.Status == corev1.ConditionFalse {
			refusal = condition.Cause{Reason: found.Reason, Message: found.Message}
		}
		if diff := cmp.Diff(c.want, refusal); diff != "" || after != c.after {
			t.Errorf("%s: again after %s, want %s; -want +got\n%s", c.why, after, c.after, diff)
		}
	}
	s := scheduled(v1.Scheduled)
	waitingFor("ContainerCreating", "")(&s)
	Report{Objects: s}.Write(s.VMI, noon.Add(time.Minute))
	if found := condition.Of(s.VMI, v1.VirtualMachineInstanceSynchronized); found == nil || found.Reason != v1alpha1.ReasonPodStarting ||
		!strings.Contains(found.Message, "kubectl describe pod -n team "+observed.PodKey(key).Name) {
		t.Errorf("after a minute: %+v", found)
	}
}

// TestConditionsOfOthers: what internal/lifecycle says about the GuestHardware stays until it holds no more.
func TestConditionsOfOthers(t *testing.T) {
	foreign := condition.Cause{Reason: v1alpha1.ReasonHardwareForeign, Message: "of another identity"}
	unschedulable := condition.Cause{Reason: v1alpha1.ReasonUnschedulable, Message: "0/2 nodes fit"}
	for _, c := range []struct {
		why  string
		was  condition.Cause
		do   func(*observed.Objects)
		want string // the reason afterwards
	}{
		{"the hardware is another guest's", foreign, func(s *observed.Objects) { s.GuestPod.Spec.Hardware = nil; waitingFor("ErrImagePull", "")(s) }, foreign.Reason},
		{"it was assigned", foreign, func(*observed.Objects) {}, ""},
		{"the pod has found a node", unschedulable, func(*observed.Objects) {}, ""},
		{"the guest runs", unschedulable, func(s *observed.Objects) {
			s.GuestPod.Status.Domain = &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning}
		}, v1alpha1.ReasonStarted},
	} {
		s := scheduled(v1.Scheduled)
		condition.SetRefused(s.VMI, c.was)
		c.do(&s)
		is := s.VMI.DeepCopy()
		Report{Objects: s}.Write(is, noon)
		got := ""
		if found := condition.Of(is, v1.VirtualMachineInstanceSynchronized); found != nil {
			got = found.Reason
		}
		if got != c.want {
			t.Errorf("%s: '%s', want '%s'", c.why, got, c.want)
		}
	}
}

// TestStatesOfADomain: what the launcher reports of a guest that was started.
func TestStatesOfADomain(t *testing.T) {
	unready := func(s *observed.Objects) {
		s.Pod.Status.Conditions = append(s.Pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"})
	}
	for _, c := range []struct {
		why    string
		domain *v1alpha1.GuestDomain
		do     func(*observed.Objects)
		ready  string // the reason, and a minus for not ready
		paused bool
	}{
		{"runs", &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning}, nil, "Started", false},
		{"runs, and a probe fails", &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning}, unready, "-PodNotReady", false},
		{"is paused", &v1alpha1.GuestDomain{State: v1alpha1.GuestPaused, Reason: "PausedIOError"}, nil, "-PausedIOError", true},
		{"is paused for no reason", &v1alpha1.GuestDomain{State: v1alpha1.GuestPaused, Reason: "?"}, nil, "-Paused", true},
		{"has ended, and its pod has not", &v1alpha1.GuestDomain{State: v1alpha1.GuestPoweredOff}, nil, "-PoweredOff", false},
		{"has crashed", &v1alpha1.GuestDomain{State: v1alpha1.GuestFailed}, nil, "-Crashed", false},
	} {
		s := scheduled(v1.Scheduled)
		s.GuestPod.Status.Domain = c.domain
		if c.do != nil {
			c.do(&s)
		}
		is := s.VMI.DeepCopy()
		Report{Objects: s}.Write(is, noon)
		again := Report{Objects: observed.Objects{Key: key, VMI: is, Pod: s.Pod, GuestPod: s.GuestPod}}
		same := is.DeepCopy()
		time.Sleep(time.Millisecond) // transition times have nanoseconds here
		if again.Write(same, noon); !equality.Semantic.DeepEqual(is.Status, same.Status) {
			t.Errorf("a guest that %s: the same status is written again: %s", c.why, cmp.Diff(is.Status, same.Status))
		}
		ready, paused := condition.Of(is, v1.VirtualMachineInstanceReady), condition.Of(is, v1.VirtualMachineInstancePaused)
		got := ready.Reason
		if ready.Status == corev1.ConditionFalse {
			got = "-" + got
		}
		if is.Status.Phase != v1.Running || got != c.ready || (paused != nil) != c.paused {
			t.Errorf("a guest that %s: phase %s, Ready '%s', Paused %v", c.why, is.Status.Phase, got, paused)
		}
	}
	s := scheduled(v1.Running)
	s.GuestPod.Status.Domain = nil
	if write(s); s.VMI.Status.Phase != v1.Running {
		t.Errorf("a report that was taken back leads to phase %s", s.VMI.Status.Phase)
	}
	other := scheduled(v1.Scheduled)
	other.GuestPod.Spec.PodUID, other.GuestPod.Status.Domain = "another", &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning}
	if write(other); other.VMI.Status.Phase != v1.Scheduled {
		t.Error("the report of another pod counts")
	}
}
