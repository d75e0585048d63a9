package hostprofile

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

func profile(t *testing.T, name, spec string) *v1alpha1.HostProfile {
	t.Helper()
	p := &v1alpha1.HostProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 7}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConditions: each profile says whether it counts and with whom it is in conflict, also when it is the other one that changes.
func TestConditions(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	few := profile(t, "few", "{cpu: {shares: 2}}")
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.HostProfile{}).WithObjects(few,
		profile(t, "many", "{vmiSelector: {matchLabels: {tier: big}}, cpu: {shares: 3}}"),
		profile(t, "field", "{priority: 1, disk: {cachePolicy: none}}"),
		profile(t, "selector", "{vmiSelector: {matchExpressions: [{key: a, operator: Like}]}, cpu: {shares: 4}}")).Build()
	check := func(name, kind string, want metav1.ConditionStatus, reason, words string) {
		t.Helper()
		var p v1alpha1.HostProfile
		if err := cluster.Get(t.Context(), client.ObjectKey{Name: name}, &p); err != nil {
			t.Fatal(err)
		}
		got := meta.FindStatusCondition(p.Status.Conditions, kind)
		if got == nil || got.Status != want || got.Reason != reason || got.ObservedGeneration != p.Generation || !strings.Contains(got.Message, words) {
			t.Errorf("%s: %s is %+v, want %s %s with '%s'", name, kind, got, want, reason, words)
		}
	}
	reconcile := func() {
		t.Helper()
		_, first := (&Controller{Client: cluster}).Reconcile(t.Context(), ctrl.Request{})
		var before, after v1alpha1.HostProfileList
		read := cluster.List(t.Context(), &before)
		_, second := (&Controller{Client: cluster}).Reconcile(t.Context(), ctrl.Request{})
		if err := errors.Join(first, read, second, cluster.List(t.Context(), &after)); err != nil {
			t.Fatal(err)
		}
		for i := range before.Items {
			if before.Items[i].ResourceVersion != after.Items[i].ResourceVersion {
				t.Errorf("%s is written again, and nothing has changed", before.Items[i].Name)
			}
		}
	}
	reconcile()
	check("few", v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "")
	check("few", v1alpha1.ConditionConflicting, metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer, "both have priority 0 and differ: 'many' (cpu.shares)")
	check("many", v1alpha1.ConditionConflicting, metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer, "'few' (cpu.shares)")
	check("field", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidField, "spec.disk.cachePolicy: Unsupported value")
	check("selector", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector, "spec.vmiSelector.matchExpressions[0].operator")
	check("selector", v1alpha1.ConditionConflicting, metav1.ConditionFalse, v1alpha1.ReasonNoConflict, "")
	if err := cluster.Delete(t.Context(), few); err != nil {
		t.Fatal(err)
	}
	reconcile()
	check("many", v1alpha1.ConditionConflicting, metav1.ConditionFalse, v1alpha1.ReasonNoConflict, "")
}

// TestServed: where guests run in pods, a profile names the fields that have no effect there. Another runtime takes the condition away.
func TestServed(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.HostProfile{}).WithObjects(
		profile(t, "tuned", "{cpu: {shares: 3, pinStrategy: None}, blockIO: {weight: 200}, net: {filterRef: clean}, numa: {mode: Strict}, memory: {hardLimit: 1Gi}}"),
		profile(t, "disks", "{disk: {cachePolicy: None}, diskLimits: {totalIOPS: 100}}"), profile(t, "scheduled", "{cpu: {vcpuScheduler: {policy: Batch}}}"),
		profile(t, "realtime", "{cpu: {vcpuScheduler: {policy: FIFO, priority: 1}}}")).Build()
	const remedy = "use requests and limits of the VMI, kubelet's settings and the cluster's network instead: "
	want := map[string]string{"disks": "", "scheduled": "", "realtime": "spec.cpu.vcpuScheduler.policy, spec.cpu.vcpuScheduler.priority",
		"tuned": "spec.blockIO.weight, spec.cpu.shares, spec.memory.hardLimit, spec.numa.mode, spec.net.filterRef"}
	for _, pods := range []bool{true, false} {
		if _, err := (&Controller{Client: cluster, Pods: pods}).Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		for name, fields := range want {
			var p v1alpha1.HostProfile
			if err := cluster.Get(t.Context(), client.ObjectKey{Name: name}, &p); err != nil {
				t.Fatal(err)
			}
			got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionServed)
			switch {
			case !pods && got != nil:
				t.Errorf("%s: %+v where guests do not run in pods", name, got)
			case !pods:
			case got == nil || got.ObservedGeneration != p.Generation:
				t.Errorf("%s: %+v", name, got)
			case fields == "" && (got.Status != metav1.ConditionTrue || got.Reason != v1alpha1.ReasonServed || got.Message != ""):
				t.Errorf("%s: %+v", name, got)
			case fields != "" && (got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonNotServedInPods || !strings.HasSuffix(got.Message, remedy+fields)):
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

func TestTooManyProfiles(t *testing.T) {
	t.Parallel()
	if got := conflictingCondition(&v1alpha1.HostProfile{}, nil, false); got.Status != metav1.ConditionUnknown || got.Reason != v1alpha1.ReasonTooManyProfiles {
		t.Errorf("a profile that was not compared with all: %+v", got)
	}
}
