package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func newQuota(hard, used string) *corev1.ResourceQuota {
	list := func(pods string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	}
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team"},
		Spec: corev1.ResourceQuotaSpec{Hard: list(hard)}, Status: corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)}}
}

// TestQuotaFreed: after these changes of a quota, the API server may accept what it refused.
func TestQuotaFreed(t *testing.T) {
	for _, c := range []struct {
		why     string
		was, is *corev1.ResourceQuota
		want    bool
	}{
		{"less is used", newQuota("2", "2"), newQuota("2", "1"), true},
		{"more is used", newQuota("2", "1"), newQuota("2", "2"), false},
		{"as much", newQuota("2", "1"), newQuota("2", "1000m"), false},
		{"another limit", newQuota("2", "2"), newQuota("3", "2"), true},
	} {
		if got := QuotaFreed.Update(event.UpdateEvent{ObjectOld: c.was, ObjectNew: c.is}); got != c.want {
			t.Errorf("%s: %t", c.why, got)
		}
	}
	if QuotaFreed.Create(event.CreateEvent{Object: newQuota("2", "1")}) || !QuotaFreed.Delete(event.DeleteEvent{Object: newQuota("2", "1")}) {
		t.Error("a quota that comes gives room, or one that goes gives none")
	}
}

// TestRefusedVMs: a freed quota retries VMs whose VMIs were refused, a few at a time, those that have waited longest first.
func TestRefusedVMs(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	c := newCluster(t, vm)
	for i := range 40 {
		other := newVM(v1.RunStrategyAlways)
		other.Name, other.Namespace = fmt.Sprint("vm-", i), map[bool]string{true: "team", false: "others"}[i < 30]
		reason := map[bool]string{true: v1alpha1.ReasonFailedCreate, false: v1alpha1.ReasonNameTaken}[i%2 == 0 || i > 20]
		since := metav1.NewTime(c.now.Add(-time.Duration(i) * time.Second))
		other.Status.Conditions = []v1.VirtualMachineCondition{{Type: v1.VirtualMachineFailure, Reason: reason, LastTransitionTime: since}}
		if err := c.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := c.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	requests := c.controller.refusedVMs(t.Context(), newQuota("2", "1"))
	if len(requests) != MaxRetriedVMs || requests[0].Name != "vm-29" || requests[15].Name != "vm-8" {
		t.Errorf("%d are tried again: %v", len(requests), requests)
	}
}

// TestOutage: a VM whose VMI cannot be created without a webhook reports that, and is retried when the webhook answers. It is not counted as an error.
func TestOutage(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.admit = func(*v1.VirtualMachineInstance) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "vmis.example.com": failed to call webhook: connection refused`))
	}
	result := c.reconcileRepeatedly()
	failure := conditionOf(c.vm(), v1.VirtualMachineFailure)
	if failure.Reason != v1alpha1.ReasonFailedCreate || !strings.Contains(failure.Message, `webhook "vmis.example.com"`) {
		t.Errorf("Failure is %+v", failure)
	}
	if status := c.vm().Status.PrintableStatus; status != v1.VirtualMachineStatusStopped || result.RequeueAfter < minRecheck {
		t.Errorf("STATUS is %s, it is tried again after %s", status, result.RequeueAfter)
	}
	c.admit = nil
	c.reconcileRepeatedly()
	if c.vmi() == nil || conditionOf(c.vm(), v1.VirtualMachineFailure).Reason != "" {
		t.Errorf("the webhook answers, the VMI is %v, Failure %+v", c.vmi(), conditionOf(c.vm(), v1.VirtualMachineFailure))
	}
}
