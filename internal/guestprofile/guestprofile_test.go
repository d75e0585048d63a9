package guestprofile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// cluster is a fake one, and how often statuses were written.
type cluster struct {
	client.WithWatch
	writes     int
	controller *Controller
}

func newCluster(t testing.TB, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), v1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &cluster{}
	c.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GuestProfile{}, &v1alpha1.ClusterGuestProfile{}).
		WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, inner client.Client, name string,
		object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		c.writes++
		return inner.SubResource(name).Patch(ctx, object, patch, options...)
	}}).Build()
	return c
}

func object[T any](t *testing.T, text string) *T {
	t.Helper()
	made := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), made); err != nil {
		t.Fatal(err)
	}
	return made
}

func own(t *testing.T, name, spec string) *v1alpha1.GuestProfile {
	return object[v1alpha1.GuestProfile](t, fmt.Sprintf("{metadata: {namespace: team, name: %s, generation: 3}, spec: {%s}}", name, spec))
}

func (c *cluster) run(t testing.TB) {
	t.Helper()
	if c.controller == nil {
		c.controller = &Controller{Client: c, Cached: c, Configuration: config.Default}
	}
	namespaces, err := c.controller.listNamespaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range append(namespaces, "") {
		if _, err := c.controller.Reconcile(t.Context(), requestFor(namespace)); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) status(t *testing.T, name string) v1alpha1.GuestProfileStatus {
	t.Helper()
	var p v1alpha1.GuestProfile
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &p); err != nil {
		t.Fatal(err)
	}
	return p.Status
}

// TestConditions: each profile says whether it counts and with whom it disagrees, and nothing is written twice.
func TestConditions(t *testing.T) {
	t.Parallel()
	const grace = "selector: {}, template: {spec: {terminationGracePeriodSeconds: %d}}"
	c := newCluster(t, own(t, "one", fmt.Sprintf(grace, 1)), own(t, "two", fmt.Sprintf(grace, 2)),
		own(t, "field", "priority: 1, template: {spec: {nope: field}}"), own(t, "selector", "selector: {matchExpressions: [{key: a, operator: Like}]}"),
		own(t, "illegal", "template: {spec: {domain: {cpu: {sockets: 4, maxSockets: 2}}}}"),
		own(t, "orphan", "extends: [{name: gone}]"), own(t, "circle", "extends: [{name: circle}]"),
		object[v1alpha1.GuestProfile](t, "{metadata: {namespace: other, name: gone}}"),
		object[corev1.Namespace](t, "{metadata: {name: team}}"), object[corev1.Namespace](t, "{metadata: {name: other}}"))
	c.run(t)
	for _, test := range []struct {
		name, kind string
		want       metav1.ConditionStatus
		reason     string
		words      string
	}{
		{"one", v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, ""},
		{"one", v1alpha1.ConditionConflicting, metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer, "GuestProfile 'two' (spec.terminationGracePeriodSeconds)"},
		{"two", v1alpha1.ConditionConflicting, metav1.ConditionTrue, v1alpha1.ReasonFieldsDiffer, "GuestProfile 'one'"},
		{"field", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidField, "spec.template.spec.nope"},
		{"selector", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector, "spec.selector"},
		{"selector", v1alpha1.ConditionConflicting, metav1.ConditionFalse, v1alpha1.ReasonNoConflict, ""},
		{"illegal", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidField, "spec.template.spec.domain.cpu.sockets"},
		{"orphan", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonBaseMissing, "GuestProfile 'gone' does not exist"},
		{"circle", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonCircular, "GuestProfile 'circle' extends GuestProfile 'circle'"},
	} {
		got := meta.FindStatusCondition(c.status(t, test.name).Conditions, test.kind)
		if got == nil || got.Status != test.want || got.Reason != test.reason || got.ObservedGeneration != 3 || !strings.Contains(got.Message, test.words) {
			t.Errorf("%s: %s is %+v, want %s %s with '%s'", test.name, test.kind, got, test.want, test.reason, test.words)
		}
	}
	before := c.writes
	if c.run(t); c.writes != before || before != 8 {
		t.Errorf("%d writes, and %d after nothing has changed", before, c.writes-before)
	}
	if err := c.Delete(t.Context(), own(t, "two", "")); err != nil {
		t.Fatal(err)
	}
	c.run(t)
	if got := meta.FindStatusCondition(c.status(t, "one").Conditions, v1alpha1.ConditionConflicting); got.Status != metav1.ConditionFalse {
		t.Errorf("the other one is gone: %+v", got)
	}
}

// TestSelected: VMs and VMIs without a VM are counted, those that keep a profile away are not.
func TestSelected(t *testing.T) {
	t.Parallel()
	const vm = "{metadata: {namespace: %s, name: %s}, spec: {runStrategy: Always, " +
		"template: {metadata: {labels: {os: %s}, annotations: {%s}}, spec: {domain: {}}}}}"
	const exclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude: 'true'"
	c := newCluster(t, own(t, "linux", "selector: {matchLabels: {os: linux}}"), own(t, "all", "selector: {}, allowExclusion: true"), own(t, "base", ""),
		object[v1alpha1.ClusterGuestProfile](t, "{metadata: {name: production}, spec: {selector: {}, namespaceSelector: {matchLabels: {stage: production}}}}"),
		object[corev1.Namespace](t, "{metadata: {name: team}}"), object[corev1.Namespace](t, "{metadata: {name: shop, labels: {stage: production}}}"),
		object[v1.VirtualMachine](t, fmt.Sprintf(vm, "team", "a", "linux", "")), object[v1.VirtualMachine](t, fmt.Sprintf(vm, "team", "b", "windows", exclude)),
		object[v1.VirtualMachine](t, fmt.Sprintf(vm, "shop", "c", "linux", "")),
		object[v1.VirtualMachineInstance](t, "{metadata: {namespace: team, name: bare, labels: {os: linux}}, spec: {domain: {}}}"),
		object[v1.VirtualMachineInstance](t, "{metadata: {namespace: team, name: a, labels: {os: linux}, ownerReferences: "+
			"[{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u, controller: true}]}, spec: {domain: {}}}"))
	c.run(t)
	for name, want := range map[string]int32{"linux": 2, "all": 2, "base": 0} {
		if got := c.status(t, name).Selected; got != want {
			t.Errorf("%s selects %d, want %d", name, got, want)
		}
	}
	var production v1alpha1.ClusterGuestProfile
	if err := c.Get(t.Context(), client.ObjectKey{Name: "production"}, &production); err != nil || production.Status.Selected != 1 {
		t.Errorf("production selects %d: %v", production.Status.Selected, err)
	}
}
