package guestpolicy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// newException returns an approved exception from policy 'sockets' that ends at a time.
func newException(name string, ends time.Time) *v1alpha1.GuestPolicyException {
	x := &v1alpha1.GuestPolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 1,
		CreationTimestamp: metav1.NewTime(ends.Add(-36 * time.Hour))}}
	x.Spec = v1alpha1.GuestPolicyExceptionSpec{
		Policies:        []v1alpha1.GuestPolicyExceptionPolicy{{Name: "sockets"}},
		VirtualMachines: v1alpha1.GuestPolicyExceptionMatch{Names: []string{"web"}}, Reason: "a test", Expires: metav1.NewTime(ends), RequestedBy: "ann",
	}
	x.Status.Approvals = []v1alpha1.GuestPolicyExceptionApproval{
		{Policy: "sockets", By: "bob", As: v1alpha1.GuestPolicyApprover{Kind: "User", Name: "bob"}, Generation: 1}}
	return x
}

// permitting returns a policy that permits exceptions of two days.
func permitting() *v1alpha1.GuestPolicy {
	p := written("sockets", "1", 1, "true")
	p.Spec.Exceptions = &v1alpha1.GuestPolicyExceptions{Allowed: true, MaxDuration: &metav1.Duration{Duration: 48 * time.Hour},
		Approvers: []v1alpha1.GuestPolicyApprover{{Kind: "User", Name: "bob"}}}
	return p
}

// TestConditionsOfAnException: the conditions follow the clock in both directions, the last day has one event, and nothing is deleted.
func TestConditionsOfAnException(t *testing.T) {
	start := time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)
	ends := start.Add(30 * time.Hour)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GuestPolicyException{}).
		WithObjects(newException("until-two", ends), permitting()).Build()
	now, recorder := start, events.NewFakeRecorder(10)
	c := &ExceptionController{Client: cluster, Events: recorder, Now: func() time.Time { return now }}
	key := client.ObjectKey{Namespace: "team", Name: "until-two"}
	for _, test := range []struct {
		why             string
		at              time.Time
		inForce, reason string
		expiring        metav1.ConditionStatus
		again           time.Duration
		events          int
	}{
		{"long before its end", start, "True", v1alpha1.ReasonApproved, "False", time.Hour, 0},
		{"shortly before its last day", ends.Add(-24*time.Hour - time.Minute), "True", v1alpha1.ReasonApproved, "False", time.Minute, 0},
		{"in its last day", ends.Add(-time.Hour / 2), "True", v1alpha1.ReasonApproved, "True", time.Hour / 2, 1},
		{"in its last day again", ends.Add(-time.Hour / 2), "True", v1alpha1.ReasonApproved, "True", time.Hour / 2, 1},
		{"at its end", ends, "False", v1alpha1.ReasonExpired, "False", 0, 1},
		{"a clock that is a year ahead", ends.AddDate(1, 0, 0), "False", v1alpha1.ReasonExpired, "False", 0, 1},
		{"the clock is right again", start, "True", v1alpha1.ReasonApproved, "False", time.Hour, 1},
	} {
		now = test.at
		result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatalf("%s: %v", test.why, err)
		}
		var read v1alpha1.GuestPolicyException
		if err := cluster.Get(t.Context(), key, &read); err != nil {
			t.Fatalf("%s: %v", test.why, err)
		}
		inForce := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionInForce)
		expiring := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionExpiring)
		if string(inForce.Status) != test.inForce || inForce.Reason != test.reason || expiring.Status != test.expiring || result.RequeueAfter != test.again {
			t.Errorf("%s: %+v, %+v, again after %s", test.why, inForce, expiring, result.RequeueAfter)
		}
		if len(recorder.Events) != test.events {
			t.Errorf("%s: %d events, want %d", test.why, len(recorder.Events), test.events)
		}
		if len(read.Status.Approvals) != 1 {
			t.Errorf("%s: the approvals are %+v", test.why, read.Status.Approvals)
		}
	}
	if err := cluster.Delete(t.Context(), permitting()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	var read v1alpha1.GuestPolicyException
	if err := cluster.Get(t.Context(), key, &read); err != nil {
		t.Fatal(err)
	}
	if got := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionInForce); got.Reason != v1alpha1.ReasonNoSuchPolicy ||
		!strings.Contains(got.Message, "there is no GuestPolicy 'sockets'") {
		t.Errorf("without its policy: %+v", got)
	}
}

// TestExceptionsByNamespace: reviews get the approved exceptions of a namespace, the longest first, and none that was deleted.
func TestExceptionsByNamespace(t *testing.T) {
	noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	first, second, asked := newException("a", noon), newException("b", noon.Add(time.Hour)), newException("c", noon)
	asked.Status.Approvals = nil
	var changed []string
	x := &Exceptions{Changed: func(policies ...string) { changed = append(changed, policies...) }}
	names := func() (all []string) {
		for _, one := range x.Of("team") {
			all = append(all, one.Name)
		}
		return all
	}
	edited := newException("d", noon) // by its tenant, after the approval
	edited.Generation++
	labelled := second.DeepCopy()
	labelled.Labels, labelled.Status.Conditions = map[string]string{"a": "b"}, []metav1.Condition{{Type: v1alpha1.ConditionInForce}}
	for _, of := range []*v1alpha1.GuestPolicyException{first, second, asked, edited, labelled} {
		x.put(of)
	}
	if got := strings.Join(names(), " "); got != "team/b team/a" {
		t.Errorf("exceptions %q", got)
	}
	before := x.Of("team")
	moved := first.DeepCopy()
	moved.Spec.Policies[0].Name = "memory"
	moved.Generation, moved.Status.Approvals[0].Generation = 2, 2 // the new spec is approved
	x.put(moved)
	x.drop(cache.DeletedFinalStateUnknown{Key: "team/b"})
	if got := strings.Join(names(), " "); got != "team/a" || !slices.Equal(x.Of("team")[0].Policies(), []string{"memory"}) || len(x.Of("other")) != 0 {
		t.Errorf("exceptions %q", got)
	}
	if before[0].Name != "team/b" || before[1].Name != "team/a" {
		t.Error("a review that reads the exceptions sees others in the middle of it")
	}
	if got := strings.Join(changed, " "); got != "sockets sockets memory sockets sockets" {
		t.Errorf("changed policies %q", got)
	}
	var _ policy.ExceptionSource = x.Of
}
