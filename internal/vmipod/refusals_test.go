package vmipod

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRefusedPods: what the API server says about a pod that it refuses is in the VMI's status, and is tried again at an interval.
func TestRefusedPods(t *testing.T) {
	on := newCluster(t, explicitVMI())
	tries := 0
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); !is {
			return nil
		}
		tries++
		return apierrors.NewForbidden(corev1.Resource("pods"), podKey.Name, errQuota)
	}
	result := on.reconcileAll()
	on.expectRefusal("a quota", v1alpha1.ReasonFailedCreate, "exceeded quota: compute")
	if result.RequeueAfter != retryInterval || tries != 1 {
		t.Errorf("tried %d times, again after %s", tries, result.RequeueAfter)
	}
	on.writes = nil
	if on.reconcileAll(); tries != 1 || len(on.writes) > 0 {
		t.Errorf("an event has it tried again, %d times in all, writes %q", tries, on.writes)
	}
	on.refuse = nil
	on.now = on.now.Add(retryInterval)
	on.reconcileAll()
	if status, _ := on.readCondition(v1.VirtualMachineInstanceSynchronized); status != "" || len(on.vmi().Status.ActivePods) != 1 {
		t.Errorf("the quota is freed: Synchronized is '%s', pods %v", status, on.vmi().Status.ActivePods)
	}
}

// TestAwaited: when an awaited object is created, the pod of its VMI is created soon, with at most one try a second. Objects of another kind, name or namespace
// cause no try.
func TestAwaited(t *testing.T) {
	volume := func(source v1.VolumeSource) func(*v1.VirtualMachineInstance) {
		return func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Volumes = []v1.Volume{{Name: "a", VolumeSource: source}}
		}
	}
	meta := metav1.ObjectMeta{Namespace: "team", Name: "d"}
	for _, c := range []struct {
		kind            string
		asks            func(*v1.VirtualMachineInstance)
		object          client.Object
		reason, message string
	}{
		{kindClaim, volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}),
			&corev1.PersistentVolumeClaim{ObjectMeta: meta}, v1alpha1.ReasonFailedPvcNotFound, "no PersistentVolumeClaim 'd'"},
		{pod.KindSecret, volume(v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserDataSecretRef: &corev1.LocalObjectReference{Name: "d"}}}),
			&corev1.Secret{ObjectMeta: meta}, v1alpha1.ReasonNotPlaceable,
			"spec.volumes[0].cloudInitNoCloud.secretRef.name: Not found: \"d\": no Secret 'd' in this namespace: create it"},
		{pod.KindConfigMap, volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "d"}}}),
			&corev1.ConfigMap{ObjectMeta: meta}, v1alpha1.ReasonNotPlaceable, "no ConfigMap 'd' in this namespace"},
		{pod.KindServiceAccount, volume(v1.VolumeSource{ServiceAccount: &v1.ServiceAccountVolumeSource{ServiceAccountName: "d"}}),
			&corev1.ServiceAccount{ObjectMeta: meta}, v1alpha1.ReasonNotPlaceable, "no ServiceAccount 'd' in this namespace"},
		{kindNetwork, func(vmi *v1.VirtualMachineInstance) { vmi.Spec = vmiOnNetworks("d").Spec },
			definition("team", "d", ""), v1alpha1.ReasonNotPlaceable, "d"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			vmi := explicitVMI()
			c.asks(vmi)
			on := newCluster(t, vmi)
			on.controller.Settings.Taps = true
			on.reconcileAll()
			on.expectRefusal("it is missing", c.reason, c.message)
			awaited := awaitedObject{c.kind, client.ObjectKeyFromObject(c.object)}
			for _, other := range []awaitedObject{{"Node", awaited.NamespacedName}, {c.kind, types.NamespacedName{Namespace: "team", Name: "e"}},
				{c.kind, types.NamespacedName{Namespace: "others", Name: "d"}}} {
				if woken := on.controller.retryWaiting(other); len(woken) > 0 {
					t.Errorf("%v wakes %v", other, woken)
				}
			}
			if c.kind != kindClaim {
				on.expectLookup(awaited, false)
			}
			on.must(on.Create(t.Context(), c.object))
			if c.kind != kindClaim {
				on.expectLookup(awaited, true)
			}
			if woken := on.controller.retryWaiting(awaited); len(woken) != 1 || woken[0].NamespacedName != key {
				t.Errorf("the object wakes %v", woken)
			}
			if result := on.reconcileAll(); on.pod() != nil || result.RequeueAfter != soon {
				t.Errorf("within a second of the last try there is pod %v, and it is tried again after %s", on.pod(), result.RequeueAfter)
			}
			on.now = on.now.Add(soon)
			if on.reconcileAll(); on.pod() == nil {
				_, why := on.readCondition(v1.VirtualMachineInstanceSynchronized)
				t.Errorf("no pod, though the object is there: %+v", why)
			}
			if woken := on.controller.retryWaiting(awaited); len(woken) > 0 {
				t.Errorf("a VMI with a pod waits: %v", woken)
			}
		})
	}
}

// expectLookup checks that an awaited object is looked up next, and whether it is found.
func (c *cluster) expectLookup(object awaitedObject, want bool) {
	c.Helper()
	next := c.controller.awaited.nextUnwatched(1)
	exists, err := c.controller.lookup.objectExists(c.Context(), object)
	if len(next) != 1 || next[0] != object || err != nil || exists != want {
		c.Errorf("looked for %v; %v is found: %t, %v, want %t", next, object, exists, err, want)
	}
}

// TestLookupsTakeTurns: where more objects are awaited than are looked for at a time, each has its turn. One for which several VMIs wait is looked for once.
func TestLookupsTakeTurns(t *testing.T) {
	var waiting awaitedObjects
	waiting.markWatched(kindClaim)
	secret := func(i int) awaitedObject {
		return awaitedObject{pod.KindSecret, types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("%03d", i)}}
	}
	for i := range 50 {
		vmi := types.NamespacedName{Namespace: "team", Name: fmt.Sprint(i)}
		waiting.setObjects(vmi, []awaitedObject{secret(i), secret(0), {kindClaim, key}})
	}
	seen := map[awaitedObject]int{}
	for range 5 {
		next := waiting.nextUnwatched(20)
		if len(next) != 20 {
			t.Fatalf("%d objects are looked for", len(next))
		}
		for _, object := range next {
			seen[object]++
		}
	}
	for i := range 50 {
		if seen[secret(i)] != 2 {
			t.Errorf("%v had %d turns of 2", secret(i), seen[secret(i)])
		}
	}
}

// TestLookupsOfNamespacesTakeTurns: a namespace in which thousands of objects are awaited delays the lookups of another namespace only a little.
func TestLookupsOfNamespacesTakeTurns(t *testing.T) {
	var waiting awaitedObjects
	secret := func(namespace string, i int) awaitedObject {
		return awaitedObject{pod.KindSecret, types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%04d", i)}}
	}
	for i := range 3000 {
		waiting.setObjects(types.NamespacedName{Namespace: "many", Name: fmt.Sprint(i)}, []awaitedObject{secret("many", i)})
	}
	few := []string{"a", "team", "z"}
	for _, namespace := range few {
		for i := 1; i <= 2; i++ {
			waiting.setObjects(types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, []awaitedObject{secret(namespace, i), secret(namespace, 3)})
		}
	}
	seen := map[awaitedObject]int{}
	for range 10 {
		next := waiting.nextUnwatched(20)
		if len(next) != 20 {
			t.Fatalf("%d objects are looked for", len(next))
		}
		for _, object := range next {
			seen[object]++
		}
	}
	for _, namespace := range few {
		if seen[secret(namespace, 1)] != 10 || seen[secret(namespace, 2)] != 10 {
			t.Errorf("%s had %d and %d turns of 10", namespace, seen[secret(namespace, 1)], seen[secret(namespace, 2)])
		}
	}
	if len(seen) != 6+140 {
		t.Errorf("%d objects had a turn, want all of the few namespaces, and others of the large one each time", len(seen))
	}
	for range 30 { // with one look at a time each namespace has its turn
		if next := waiting.nextUnwatched(1); len(next) != 1 {
			t.Fatal(next)
		} else {
			seen[next[0]] += 100
		}
	}
	for _, namespace := range few {
		if turns := seen[secret(namespace, 1)]/100 + seen[secret(namespace, 2)]/100; turns < 7 {
			t.Errorf("%s had %d turns of 30 by 4 namespaces", namespace, turns)
		}
	}
}

// TestFewObjectsAreRemembered: a VMI with hundreds of claims that do not exist costs little memory, and few requests for its Secrets.
func TestFewObjectsAreRemembered(t *testing.T) {
	vmi := explicitVMI()
	for i := range 512 {
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: fmt.Sprint("d", i)}}},
			v1.Volume{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: fmt.Sprint("s", i)}}})
	}
	var waiting awaitedObjects
	waiting.setObjects(key, missingClaims(vmi, nil))
	if kept := waiting.byVMI[key]; len(kept) != mostAwaited || kept[0].Name != "d0" {
		t.Errorf("%d objects are remembered", len(kept))
	}
	missing, errs, err := newCluster(t, vmi).controller.lookup.missingReferences(t.Context(), vmi)
	if len(missing) != mostAwaited || len(errs) != mostAwaited || err != nil {
		t.Errorf("%d Secrets are looked for, %d errors, %v", len(missing), len(errs), err)
	}
}

// TestFreedQuotaIsNoticed: when a quota is freed, the pods that it has refused are tried again, few at a time. The pods that waited longest come first.
func TestFreedQuotaIsNoticed(t *testing.T) {
	vmis := []client.Object{explicitVMI()}
	on := newCluster(t, vmis...)
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); is {
			return apierrors.NewForbidden(corev1.Resource("pods"), podKey.Name, errQuota)
		}
		return nil
	}
	on.reconcileAll()
	if woken := on.controller.retryRefused("others"); len(woken) > 0 {
		t.Errorf("another namespace wakes %v", woken)
	}
	if woken := on.controller.retryRefused("team"); len(woken) != 1 || woken[0].NamespacedName != key {
		t.Errorf("the namespace wakes %v", woken)
	}
	if result := on.reconcileAll(); result.RequeueAfter != soon {
		t.Errorf("it is tried again after %s", result.RequeueAfter)
	}
	on.refuse = nil
	on.now = on.now.Add(soon)
	if on.reconcileAll(); on.pod() == nil {
		t.Error("no pod, though the quota is freed")
	}
	var many refusals
	for i := range 100 {
		many.addRefusal(types.NamespacedName{Namespace: "team", Name: fmt.Sprint(i)},
			refusal{cause: condition.Cause{Reason: v1alpha1.ReasonFailedCreate}, since: on.now.Add(-time.Duration(i) * time.Second)})
	}
	if woken := many.longestRefused("team", v1alpha1.ReasonFailedCreate, 16); len(woken) != 16 || woken[0].Name != "99" {
		t.Errorf("%d of 100 are tried again, the first is %v", len(woken), woken[0])
	}
}

// TestOutage: a pod that a webhook keeps from being made is tried again when the webhook answers, and its VMI says meanwhile which one does not.
func TestOutage(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); is {
			return apierrors.NewInternalError(errors.New(`failed calling webhook "pods.example.com": failed to call webhook: connection refused`))
		}
		return nil
	}
	on.reconcileAll()
	on.expectRefusal("an outage", v1alpha1.ReasonFailedCreate, `failed calling webhook "pods.example.com"`)
	on.refuse = nil
	on.controller.refused.retrySoon(key)
	on.now = on.now.Add(soon)
	if on.reconcileAll(); on.pod() == nil {
		t.Error("no pod, though the webhook answers")
	}
}

// TestConflictAfterCreation: another writer of the status does not make the new pod a stranger.
func TestConflictAfterCreation(t *testing.T) {
	on := newCluster(t, explicitVMI())
	on.refuse = func(object client.Object) error {
		if _, is := object.(*corev1.Pod); is {
			vmi := on.vmi()
			condition.SetReady(vmi, corev1.ConditionFalse, condition.Cause{Reason: "Other"})
			on.must(on.Status().Update(t.Context(), vmi))
		}
		return nil
	}
	on.reconcileAll()
	if found := on.pod(); found == nil || !observed.IsRecorded(on.vmi(), found.UID) || on.created != 4 {
		t.Errorf("%d objects were created, the status has %v", on.created, on.vmi().Status.ActivePods)
	}
}
