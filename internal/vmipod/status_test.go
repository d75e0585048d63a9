package vmipod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// noon is the time of these tests.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// placed returns what is seen of a VMI whose pod has a node, and whose launcher has been told its hardware.
func placed(phase v1.VirtualMachineInstancePhase) seen {
	vmi := guestless()
	vmi.Status = v1.VirtualMachineInstanceStatus{Phase: phase, NodeName: "n1", ActivePods: map[types.UID]string{"pod": "n1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: podKey.Name, UID: "pod", Finalizers: []string{v1alpha1.FinalizerGuestPod},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)}}}
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	guest := &v1alpha1.GuestPod{Spec: v1alpha1.GuestPodSpec{PodUID: "pod", Hardware: &v1alpha1.GuestPodHardware{Digest: "d"}}}
	return seen{key: key, vmi: vmi, pod: pod, guest: guest}
}

func waitingFor(reason, message string) func(*seen) {
	return func(s *seen) {
		waits := &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: waits}}}
	}
}

func unscheduled(reason string) func(*seen) {
	return func(s *seen) {
		s.pod.Spec.NodeName, s.vmi.Status.NodeName, s.vmi.Status.Phase = "", "", v1.Scheduling
		s.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "0/2 nodes fit"}}
	}
}

// TestWaiting: why a guest does not start, in the words of scheduler, kubelet, controller and launcher.
func TestWaiting(t *testing.T) {
	launcher := func(reason, message string) func(*seen) {
		return func(s *seen) {
			s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			s.guest.Status.Refusal = &v1alpha1.GuestRefusal{Reason: reason, Message: message}
		}
	}
	own := &condition.Cause{Reason: v1alpha1.ReasonInvalidFacts, Message: "machine"}
	for _, c := range []struct {
		why     string
		do      func(*seen)
		refusal *condition.Cause
		later   time.Duration // after noon
		want    condition.Cause
		after   time.Duration
	}{
		{"nothing is known yet", func(*seen) {}, nil, 0, condition.Cause{}, quietStart},
		{"no node has room", unscheduled("Unschedulable"), nil, 0, condition.Cause{Reason: "Unschedulable", Message: "0/2 nodes fit"}, 0},
		{"it is gated", unscheduled("SchedulingGated"), nil, 0, condition.Cause{Reason: "SchedulingGated", Message: "0/2 nodes fit"}, 0},
		{"the scheduler failed", unscheduled("SchedulerError"), nil, 0, condition.Cause{Reason: "Unschedulable", Message: "0/2 nodes fit"}, 0},
		{"an image is pulled", waitingFor("ContainerCreating", ""), nil, 10 * time.Second, condition.Cause{}, quietStart - 10*time.Second},
		{"a clock is behind", waitingFor("ContainerCreating", ""), nil, -time.Hour, condition.Cause{}, quietStart},
		{"an image cannot be pulled", waitingFor("ErrImagePull", "not found"), nil, 0, condition.Cause{Reason: "ErrImagePull", Message: "not found"}, 0},
		{"kubelet waits", waitingFor("ImagePullBackOff", "back-off"), nil, 0, condition.Cause{Reason: "ImagePullBackOff", Message: "back-off"}, 0},
		{"a Secret is missing", waitingFor("CreateContainerConfigError", "secret \"x\" not found"), nil, 0,
			condition.Cause{Reason: "CreateContainerConfigError", Message: "secret \"x\" not found"}, 0},
		{"the launcher refuses", launcher("NotBindable", "no disk"), nil, 0, condition.Cause{Reason: "NotBindable", Message: "no disk"}, 0},
		{"and its reason is none", launcher("not a reason\n", "a\nb\x1b[31m"), nil, 0, condition.Cause{Reason: "StartFailed", Message: "a b [31m"}, 0},
		{"the controller refuses, and the launcher too", launcher("NotBindable", "no disk"), own, 0, *own, 0},
	} {
		s := placed(v1.Scheduled)
		c.do(&s)
		is := s.vmi.DeepCopy()
		after := s.follow(is, c.refusal, noon.Add(c.later))
		var said condition.Cause
		if found := condition.Of(is, v1.VirtualMachineInstanceSynchronized); found != nil && found.Status == corev1.ConditionFalse {
			said = condition.Cause{Reason: found.Reason, Message: found.Message}
		}
		if diff := cmp.Diff(c.want, said); diff != "" || after != c.after {
			t.Errorf("%s: again after %s, want %s; -want +got\n%s", c.why, after, c.after, diff)
		}
	}
	s := placed(v1.Scheduled)
	waitingFor("ContainerCreating", "")(&s)
	s.follow(s.vmi, nil, noon.Add(time.Minute))
	if found := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); found == nil || found.Reason != v1alpha1.ReasonPodStarting ||
		!strings.Contains(found.Message, "kubectl describe pod -n team "+podKey.Name) {
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
		do   func(*seen)
		want string // the reason afterwards
	}{
		{"the hardware is another guest's", foreign, func(s *seen) { s.guest.Spec.Hardware = nil; waitingFor("ErrImagePull", "")(s) }, foreign.Reason},
		{"it was assigned", foreign, func(*seen) {}, ""},
		{"the pod has found a node", unschedulable, func(*seen) {}, ""},
		{"the guest runs", unschedulable, func(s *seen) { s.guest.Status.Domain = &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning} }, v1alpha1.ReasonStarted},
	} {
		s := placed(v1.Scheduled)
		condition.SetRefused(s.vmi, c.was)
		c.do(&s)
		is := s.vmi.DeepCopy()
		s.follow(is, nil, noon)
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
	unready := func(s *seen) {
		s.pod.Status.Conditions = append(s.pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"})
	}
	for _, c := range []struct {
		why    string
		domain *v1alpha1.GuestDomain
		do     func(*seen)
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
		s := placed(v1.Scheduled)
		s.guest.Status.Domain = c.domain
		if c.do != nil {
			c.do(&s)
		}
		is := s.vmi.DeepCopy()
		s.follow(is, nil, noon)
		again := seen{key: key, vmi: is, pod: s.pod, guest: s.guest}
		same := is.DeepCopy()
		time.Sleep(time.Millisecond) // transition times have nanoseconds here
		if again.follow(same, nil, noon); !equality.Semantic.DeepEqual(is.Status, same.Status) {
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
	s := placed(v1.Running)
	s.guest.Status.Domain = nil
	if s.follow(s.vmi, nil, noon); s.vmi.Status.Phase != v1.Running {
		t.Errorf("a report that was taken back leads to phase %s", s.vmi.Status.Phase)
	}
	other := placed(v1.Scheduled)
	other.guest.Spec.PodUID, other.guest.Status.Domain = "another", &v1alpha1.GuestDomain{State: v1alpha1.GuestRunning}
	if other.follow(other.vmi, nil, noon); other.vmi.Status.Phase != v1.Scheduled {
		t.Error("the report of another pod counts")
	}
}
