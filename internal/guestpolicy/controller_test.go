package guestpolicy

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// newController returns a controller of a cluster with these objects.
func newController(t *testing.T, stored ...client.Object) *Controller {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GuestPolicy{}).WithObjects(stored...).Build()
	return &Controller{Client: cluster, Validating: cluster, Registered: cluster}
}

// TestAccepted: the condition says whether a policy compiles, and where it does not, and is written once.
func TestAccepted(t *testing.T) {
	c := newController(t, written("good", "1", 7, "true"), written("bad", "2", 7, "object.spec.nothing == 1"))
	cluster := c.Client
	for _, test := range []struct {
		name   string
		status metav1.ConditionStatus
		reason string
		words  string
	}{
		{"good", metav1.ConditionTrue, v1alpha1.ReasonAccepted, ""},
		{"bad", metav1.ConditionFalse, v1alpha1.ReasonNotCompiled, "undefined field 'nothing'"},
	} {
		key := ctrl.Request{NamespacedName: client.ObjectKey{Name: test.name}}
		var first, second v1alpha1.GuestPolicy
		for _, read := range []*v1alpha1.GuestPolicy{&first, &second} {
			if _, err := c.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if err := cluster.Get(t.Context(), key.NamespacedName, read); err != nil {
				t.Fatal(err)
			}
		}
		got := meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionAccepted)
		if got == nil || got.Status != test.status || got.Reason != test.reason || got.ObservedGeneration != 7 || !strings.Contains(got.Message, test.words) {
			t.Errorf("%s: %+v", test.name, got)
		}
		if first.ResourceVersion != second.ResourceVersion {
			t.Errorf("%s is written again, and nothing has changed", test.name)
		}
	}
	if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "gone"}}); err != nil {
		t.Errorf("a policy that was deleted: %v", err)
	}
}

func named(name string, webhooks []admissionv1.ValidatingWebhook) *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks}
}

// TestEnforced: kiln-policies has webhooks while a policy denies, and condition Enforced of the policy is True. A missing configuration is not created.
func TestEnforced(t *testing.T) {
	deny, skipped, warns := written("deny", "1", 3, "true"), written("skipped", "2", 3, "true"), written("warns", "3", 3, "true")
	skipped.Spec.FailurePolicy = v1alpha1.PolicyIgnore
	warns.Spec.ValidationActions = []v1alpha1.GuestPolicyAction{v1alpha1.PolicyWarn}
	open, closed, none := named(validating, installedHooks(admissionv1.Ignore)), named(validating, installedHooks(admissionv1.Fail)), named(registered, nil)
	changed := named(validating, installedHooks(admissionv1.Ignore)[1:])
	stale := named(registered, FailClosed(open.Webhooks, []v1alpha1.GuestPolicy{*deny}))
	for _, test := range []struct {
		why     string
		stored  []client.Object
		policy  *v1alpha1.GuestPolicy
		webhook int
		reason  string
	}{
		{"beside KubeVirt", []client.Object{open, none}, deny, 2, v1alpha1.ReasonRegistered},
		{"may be skipped", []client.Object{open, none}, skipped, 0, v1alpha1.ReasonMayBeSkipped},
		{"no denial", []client.Object{open, none}, warns, 0, ""},
		{"the last policy is gone", []client.Object{open, stale}, nil, 0, ""},
		{"the last policy that denied warns now", []client.Object{open, stale}, warns, 0, ""},
		{"the webhooks of VMs fail anyway", []client.Object{closed, none}, deny, 0, v1alpha1.ReasonRegistered},
		{"they fail anyway, and the policy might be skipped", []client.Object{closed, none}, skipped, 0, v1alpha1.ReasonRegistered},
		{"they fail anyway, by manifests of before", []client.Object{closed}, deny, 0, v1alpha1.ReasonRegistered},
		{"one is missing", []client.Object{changed, none}, deny, 1, v1alpha1.ReasonNotRegistered},
		{"kiln-policies is missing", []client.Object{open}, deny, 0, v1alpha1.ReasonNotRegistered},
		{"all are missing", nil, deny, 0, v1alpha1.ReasonNotRegistered},
		{"kiln-validating was deleted in a hurry", []client.Object{stale}, deny, 0, v1alpha1.ReasonNotRegistered},
	} {
		stored, request := []client.Object{}, ctrl.Request{}
		for _, object := range test.stored {
			stored = append(stored, object.DeepCopyObject().(client.Object))
		}
		if test.policy != nil {
			stored, request.Name = append(stored, test.policy.DeepCopy()), test.policy.Name
		}
		c := newController(t, stored...)
		var versions []string
		for range 2 {
			if _, err := c.Reconcile(t.Context(), request); err != nil {
				t.Errorf("%s: %v", test.why, err)
			}
			var all admissionv1.ValidatingWebhookConfigurationList
			if err := c.Client.List(t.Context(), &all); err != nil || len(all.Items) != len(test.stored) {
				t.Fatalf("%s: %v, %d configurations of %d", test.why, err, len(all.Items), len(test.stored))
			}
			for _, one := range all.Items {
				if one.Name == registered && len(one.Webhooks) != test.webhook {
					t.Errorf("%s: webhooks %s, want %d", test.why, closedText(one.Webhooks), test.webhook)
				}
				versions = append(versions, one.Name+one.ResourceVersion)
			}
		}
		if half := len(versions) / 2; strings.Join(versions[:half], " ") != strings.Join(versions[half:], " ") {
			t.Errorf("%s: written again, and nothing has changed: %v", test.why, versions)
		}
		if test.policy == nil {
			continue
		}
		var policy v1alpha1.GuestPolicy
		if err := c.Client.Get(t.Context(), request.NamespacedName, &policy); err != nil {
			t.Fatal(err)
		}
		got, reason := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionEnforced), ""
		if got != nil {
			reason = got.Reason
			if (got.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonRegistered) || got.ObservedGeneration != 3 {
				t.Errorf("%s: %+v", test.why, got)
			}
		}
		if reason != test.reason {
			t.Errorf("%s: reason '%s', want '%s'", test.why, reason, test.reason)
		}
	}
}

// TestEveryPolicy: a change of the configurations reconciles all policies, and also if no policy exists any more.
func TestEveryPolicy(t *testing.T) {
	c := newController(t, written("a", "1", 1, "true"), written("b", "2", 1, "true"))
	if requests := c.everyPolicy(t.Context()); len(requests) != 3 {
		t.Errorf("%v", requests)
	}
	if requests := newController(t).everyPolicy(t.Context()); len(requests) != 1 || requests[0].Name != "" {
		t.Errorf("%v", requests)
	}
}

// TestNamespacesThatWait: no VM waits for Kiln in a namespace in which no policy refuses.
func TestNamespacesThatWait(t *testing.T) {
	for general, want := range map[string]string{
		enforcement.Enforce: "in,kilnvm.io/admission notin (disabled,warn)", enforcement.Warn: "in,kilnvm.io/admission in (enabled)",
	} {
		c := newController(t, written("a", "1", 1, "true"), &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: validating}, Webhooks: installedHooks(admissionv1.Ignore)},
			&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: registered}})
		c.Refusing = enforcement.RefusingNamespaces(general)
		if _, err := c.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		var copies admissionv1.ValidatingWebhookConfiguration
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: registered}, &copies); err != nil || len(copies.Webhooks) != 2 {
			t.Fatalf("%s: %v, %+v", general, err, copies.Webhooks)
		}
		for i := range copies.Webhooks {
			if got := metav1.FormatLabelSelector(copies.Webhooks[i].NamespaceSelector); got != want {
				t.Errorf("%s: %s selects '%s', want '%s'", general, copies.Webhooks[i].Name, got, want)
			}
		}
	}
}
