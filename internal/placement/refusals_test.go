package placement

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRefusedPods: what the API server says about a pod that it refuses is in the VMI's status, and is tried again at an interval.
func TestRefusedPods(t *testing.T) {
	on := newCluster(t, guestless())
	tries := 0
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); !is {
			return nil
		}
		tries++
		return apierrors.NewForbidden(corev1.Resource("pods"), podKey.Name, errQuota)
	}
	result := on.step()
	on.refusedFor("a quota", v1alpha1.ReasonFailedCreate, "exceeded quota: compute")
	if result.RequeueAfter != retryInterval || tries != 1 {
		t.Errorf("tried %d times, again after %s", tries, result.RequeueAfter)
	}
	on.writes = nil
	if on.step(); tries != 1 || len(on.writes) > 0 {
		t.Errorf("an event has it tried again, %d times in all, writes %q", tries, on.writes)
	}
	on.refuse = nil
	on.now = on.now.Add(retryInterval)
	on.step()
	if status, _ := on.says(v1.VirtualMachineInstanceSynchronized); status != "" || len(on.vmi().Status.ActivePods) != 1 {
		t.Errorf("room has come: Synchronized is '%s', pods %v", status, on.vmi().Status.ActivePods)
	}
}

// TestAwaitedClaims: a claim that comes has its VMI placed at once, but for one try a second. Other claims, and claims of other namespaces, do not.
func TestAwaitedClaims(t *testing.T) {
	vmi := guestless()
	vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
		PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}}}
	claim := func(namespace, name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	on := newCluster(t, vmi)
	on.step()
	on.refusedFor("it is missing", v1alpha1.ReasonFailedPvcNotFound, "no PersistentVolumeClaim 'd'")
	for _, other := range []*corev1.PersistentVolumeClaim{claim("team", "other"), claim("others", "d")} {
		if woken := on.controller.onClaim(t.Context(), other); len(woken) > 0 {
			t.Errorf("%s/%s wakes %v", other.Namespace, other.Name, woken)
		}
	}
	on.must(on.Create(t.Context(), claim("team", "d")))
	if woken := on.controller.onClaim(t.Context(), claim("team", "d")); len(woken) != 1 || woken[0].NamespacedName != key {
		t.Errorf("the claim wakes %v", woken)
	}
	if result := on.step(); on.pod() != nil || result.RequeueAfter != soon {
		t.Errorf("within a second of the last try there is pod %v, and it is tried again after %s", on.pod(), result.RequeueAfter)
	}
	on.now = on.now.Add(soon)
	if on.step(); on.pod() == nil {
		t.Error("no pod, though the claim is there")
	}
	if woken := on.controller.onClaim(t.Context(), claim("team", "d")); len(woken) > 0 {
		t.Errorf("a VMI with a pod waits for its claim: %v", woken)
	}
}

// TestFewClaimsAreRemembered: a VMI with hundreds of claims that do not exist costs little memory.
func TestFewClaimsAreRemembered(t *testing.T) {
	vmi := guestless()
	for i := range 512 {
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: fmt.Sprint("d", i)}}})
	}
	if names := awaitedClaims(vmi, nil); len(names) != mostAwaited || names[0] != "d0" {
		t.Errorf("%d claims are remembered", len(names))
	}
}

// TestConflictAfterCreation: another writer of the status does not make the new pod a stranger.
func TestConflictAfterCreation(t *testing.T) {
	on := newCluster(t, guestless())
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); is {
			vmi := on.vmi()
			condition.SetReady(vmi, corev1.ConditionFalse, condition.Cause{Reason: "Other"})
			on.must(on.Status().Update(t.Context(), vmi))
		}
		return nil
	}
	on.step()
	if found := on.pod(); found == nil || !recorded(on.vmi(), found.UID) || on.created != 4 {
		t.Errorf("%d objects were created, the status has %v", on.created, on.vmi().Status.ActivePods)
	}
}
