package vmipod

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestWaitsForBinding: a pod that the scheduler holds back until its claims are bound says so. What the scheduler says itself comes first.
func TestWaitsForBinding(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "d"}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	on := newCluster(t, vmi, claim)
	on.reconcileAll()
	if result := on.reconcileAll(); result.RequeueAfter != quietScheduling {
		t.Errorf("the scheduler has no time: looked at again after %s", result.RequeueAfter)
	}
	if status, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); status != "" {
		t.Errorf("at once Synchronized is '%s', %+v", status, why)
	}
	on.now = on.now.Add(quietScheduling)
	on.reconcileAll()
	on.expectRefusal("it waits", v1alpha1.ReasonWaitingForVolumeBinding, "PersistentVolumeClaim 'd'")
	if result := on.reconcileAll(); result.RequeueAfter != bindingInterval {
		t.Errorf("the claims are read again after %s", result.RequeueAfter)
	}
	on.expectRefusal("between two looks", v1alpha1.ReasonWaitingForVolumeBinding, "PersistentVolumeClaim 'd'")

	scheduled := func(status corev1.ConditionStatus) {
		on.writePodStatus(func(of *corev1.PodStatus) {
			of.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Reason: corev1.PodReasonUnschedulable, Message: "no node has room",
				LastTransitionTime: metav1.NewTime(on.now)}}
		})
	}
	scheduled(corev1.ConditionFalse)
	on.reconcileAll()
	on.expectRefusal("the scheduler says why", v1alpha1.ReasonUnschedulable, "no node has room")
	on.bindPod("n1")
	scheduled(corev1.ConditionTrue)
	on.reconcileAll()
	if status, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); status != "" {
		t.Errorf("the pod has its node, and Synchronized is '%s', %+v", status, why)
	}
}

// TestBoundClaimsDoNotWait: a pod that waits for the scheduler alone is said to start.
func TestBoundClaimsDoNotWait(t *testing.T) {
	vmi := explicitVMI()
	vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "d"}}}}
	on := newCluster(t, vmi, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}})
	on.reconcileAll()
	on.now = on.now.Add(quietScheduling)
	on.reconcileAll()
	if status, why := on.readCondition(v1.VirtualMachineInstanceSynchronized); status != "" {
		t.Errorf("Synchronized is '%s', %+v", status, why)
	}
}
