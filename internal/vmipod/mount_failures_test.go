package vmipod

import (
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMountFailure: what keeps kubelet from starting a container stands in the VMI's condition in kubelet's words, the newest of this pod, once it has taken
// longer than usual.
func TestMountFailure(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.reconcileAll()
	on.bindPod("n1")
	on.writePodStatus(func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(on.now)}}
	})
	for i, event := range []struct {
		uid             types.UID
		reason, message string
		age             time.Duration
	}{
		{on.pod().UID, "FailedAttachVolume", "an earlier one", time.Minute},
		{on.pod().UID, "FailedMount", "secret \"keys\" not\x1bfound", time.Second},
		{on.pod().UID, "Pulled", "an image", 0},
		{"another", "FailedMount", "of another pod", 0},
	} {
		seen := metav1.NewTime(on.now.Add(-event.age))
		on.must(on.WithWatch.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: string(rune('a' + i))}, InvolvedObject: corev1.ObjectReference{UID: event.uid},
			Reason: event.reason, Message: event.message, LastTimestamp: seen,
		}))
	}
	on.reconcileAll()
	if status, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); status == corev1.ConditionFalse {
		t.Errorf("at once: %+v", why)
	}
	on.now = on.now.Add(vmistatus.QuietStart)
	on.reconcileAll()
	const want = `FailedMount: secret "keys" not found`
	if _, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); why.Reason != v1alpha1.ReasonPodStarting || why.Message != want {
		t.Errorf("later: %+v, want '%s'", why, want)
	}
	on.must(on.WithWatch.DeleteAllOf(t.Context(), &corev1.Event{}, client.InNamespace("team")))
	on.reconcileAll() // an event of the tenant's objects
	if _, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); why.Message != want {
		t.Errorf("the events are read again at once: %+v", why)
	}
	on.now = on.now.Add(mountInterval)
	on.reconcileAll()
	_, why := on.readCondition(v1.VirtualMachineInstanceSynchronized)
	if why.Reason != v1alpha1.ReasonPodStarting || !strings.Contains(why.Message, "kubectl describe pod") {
		t.Errorf("without events: %+v", why)
	}
}
