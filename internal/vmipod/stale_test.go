package vmipod

import (
	"context"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// answerFromCache replaces the answers of the controller's cache for which the function returns true.
func (c *cluster) answerFromCache(answer func(client.Object) (bool, error)) {
	c.controller.Client = interceptor.NewClient(c.controller.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if answered, err := answer(object); answered {
				return err
			}
			return from.Get(ctx, key, object, options...)
		},
	})
}

// reconcileOnce reconciles once.
func (c *cluster) reconcileOnce() ctrl.Result {
	c.Helper()
	result, err := c.controller.Reconcile(c.Context(), ctrl.Request{NamespacedName: key})
	c.must(err)
	return result
}

// TestStaleVMI: another process, whose cache has the VMI as it was before its guest ran, does no harm to it.
func TestStaleVMI(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		c := newCluster(t, explicitVMI())
		stale := c.vmi()
		c.runGuest()
		if deleted {
			stale.DeletionTimestamp = &metav1.Time{Time: c.now}
			c.must(c.WithWatch.Delete(t.Context(), c.pod()))
		}
		c.restart()
		c.answerFromCache(func(object client.Object) (bool, error) {
			vmi, is := object.(*v1.VirtualMachineInstance)
			if is {
				stale.DeepCopyInto(vmi)
			}
			return is, nil
		})
		c.writes = nil
		for range 3 {
			c.reconcileOnce()
		}
		if found := c.pod(); len(c.writes) > 0 || found == nil || len(found.Finalizers) != 1 || (found.DeletionTimestamp != nil) != deleted {
			t.Errorf("deleted %t: the controller has written %q, the pod is %+v", deleted, c.writes, found)
		}
	}
}

// TestPodThatTheCacheLacks: it neither ends its VMI nor lets it go.
func TestPodThatTheCacheLacks(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		c := newCluster(t, explicitVMI())
		c.runGuest()
		if deleted {
			c.must(c.WithWatch.Delete(t.Context(), c.vmi()))
		}
		c.restart()
		c.answerFromCache(func(object client.Object) (bool, error) {
			_, is := object.(*corev1.Pod)
			return is, apierrors.NewNotFound(corev1.Resource("pods"), podKey.Name)
		})
		c.writes = nil
		if result := c.reconcileOnce(); result.RequeueAfter != conflictRetry || len(c.writes) > 0 {
			t.Errorf("deleted %t: again after %s, writes %q", deleted, result.RequeueAfter, c.writes)
		}
		// Somebody has removed the pod and its finalizer.
		found := c.pod()
		found.Finalizers = nil
		c.must(c.Update(t.Context(), found))
		if found.DeletionTimestamp == nil {
			c.must(c.WithWatch.Delete(t.Context(), found))
		}
		phase := c.lastPhase(func() { c.reconcileOnce() })
		if phase != v1.Failed {
			t.Errorf("deleted %t: the pod is gone, phase %s", deleted, phase)
		}
	}
}

// TestPodWithoutLabels: the cache contains only pods of guests. Another pod of the name is found when the pod is created.
func TestPodWithoutLabels(t *testing.T) {
	c := newCluster(t, explicitVMI(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: podKey.Namespace, Name: podKey.Name}})
	c.answerFromCache(func(object client.Object) (bool, error) {
		_, is := object.(*corev1.Pod)
		return is, apierrors.NewNotFound(corev1.Resource("pods"), podKey.Name)
	})
	if result := c.reconcileOnce(); result.RequeueAfter != retryInterval {
		t.Errorf("again after %s", result.RequeueAfter)
	}
	c.expectRefusal("a pod of somebody", v1alpha1.ReasonNameTaken, "a Pod '"+podKey.Name+"' exists")
}

// TestReportThatTheCacheLacks: the pod has ended, and the cache lacks the last report of the launcher.
func TestReportThatTheCacheLacks(t *testing.T) {
	c := newCluster(t, explicitVMI())
	c.runGuest()
	stale := c.guestPod()
	c.reportDomain(v1alpha1.GuestPoweredOff, "PoweredOff")
	c.endPod()
	c.answerFromCache(func(object client.Object) (bool, error) {
		guest, is := object.(*v1alpha1.GuestPod)
		if is {
			stale.DeepCopyInto(guest)
		}
		return is, nil
	})
	if phase := c.lastPhase(func() { c.reconcileOnce() }); phase != v1.Succeeded {
		t.Errorf("phase %s", phase)
	}
}

// TestWatches: whose VMI an event is about.
func TestWatches(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: podKey.Namespace, Name: podKey.Name, UID: "pod",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(explicitVMI(), v1.VirtualMachineInstanceGroupVersionKind)}}}
	pod.Spec.NodeName = "n1"
	c := newCluster(t, pod)
	if got := ownerVMI(t.Context(), pod); len(got) != 1 || got[0].NamespacedName != key {
		t.Errorf("an event of the pod leads to %v", got)
	}
	if got := ownerVMI(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("an event of a pod without an owner leads to %v", got)
	}
	if got := c.controller.vmisOnNode(t.Context(), node("n1")); len(got) != 1 || got[0].NamespacedName != key {
		t.Errorf("an event of the node leads to %v", got)
	}
	if got := c.controller.vmisOnNode(t.Context(), node("n2")); got != nil {
		t.Errorf("an event of another node leads to %v", got)
	}
}
