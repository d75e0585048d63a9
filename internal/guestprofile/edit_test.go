package guestprofile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// large is a legal profile of 36 kB that selects what all others of its namespace do.
func large(t testing.TB, i int) *v1alpha1.GuestProfile {
	t.Helper()
	var values, labels, annotations, nodes []string
	for k := range 400 {
		values = append(values, fmt.Sprintf("a%d", k))
		labels = append(labels, fmt.Sprintf("k%d.example.org/label-%[1]d: v%d", k, i))
	}
	for k := range 200 {
		annotations = append(annotations, fmt.Sprintf("a%d.example.org/x: %s", k, strings.Repeat("y", 60)))
	}
	for k := range 300 {
		nodes = append(nodes, fmt.Sprintf("n%d: '%d'", k, i))
	}
	made := &v1alpha1.GuestProfile{}
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, "{metadata: {namespace: team, name: p%d, uid: u%[1]d, generation: 1}, spec: {selector: {matchExpressions: "+
		"[{key: x, operator: NotIn, values: [%s]}]}, priority: 1, template: {metadata: {labels: {%s}, annotations: {%s}}, "+
		"spec: {domain: {devices: {}}, nodeSelector: {%s}}}}}", i, strings.Join(values, ","), strings.Join(labels, ","), strings.Join(annotations, ","),
		strings.Join(nodes, ",")), made); err != nil {
		t.Fatal(err)
	}
	return made
}

// edit stores a profile whatever its version.
func (c *cluster) edit(t testing.TB, p *v1alpha1.GuestProfile) {
	t.Helper()
	var stored v1alpha1.GuestProfile
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), &stored); err != nil {
		t.Fatal(err)
	}
	p.ResourceVersion, p.Status = stored.ResourceVersion, stored.Status
	if err := c.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkEdit is the judgement of a namespace with 250 large profiles after an edit of one.
func BenchmarkEdit(b *testing.B) {
	all := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}}
	for i := range 250 {
		all = append(all, large(b, i))
	}
	c := newCluster(b, all...)
	c.run(b)
	edited := large(b, 9)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		edited.Generation, edited.Spec.Priority = int64(i+2), 1+int32(i%2)
		c.edit(b, edited)
		c.controller.Cached = kept(b, c) // a cache decodes nothing when it is read
		b.StartTimer()
		if _, err := c.controller.Reconcile(b.Context(), requestFor("team")); err != nil {
			b.Fatal(err)
		}
	}
}

// kept is a cache that holds the profiles and the namespaces of a cluster.
func kept(b *testing.B, c *cluster) client.Reader {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GuestProfileList"))
	if err := c.List(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return objects.New(c.Scheme(), all...)
}

// TestEditsAreJudged: what was remembered of a profile is forgotten when it, or what it extends, changes; also by way of another namespace's edit.
func TestEditsAreJudged(t *testing.T) {
	t.Parallel()
	named := func(p *v1alpha1.GuestProfile, uid string) *v1alpha1.GuestProfile {
		p.UID = types.UID(uid)
		return p
	}
	const legal, illegal = "template: {spec: {domain: {cpu: {sockets: 1}}}}", "template: {spec: {domain: {cpu: {sockets: 4, maxSockets: 2}}}}"
	c := newCluster(t, named(own(t, "base", legal), "b"), named(own(t, "middle", "extends: [{name: base}]"), "m"),
		named(own(t, "top", "extends: [{name: middle}]"), "t"), object[corev1.Namespace](t, "{metadata: {name: team}}"))
	accepted := func(name string) metav1.ConditionStatus {
		return meta.FindStatusCondition(c.status(t, name).Conditions, v1alpha1.ConditionAccepted).Status
	}
	for step, content := range []string{legal, illegal, legal} {
		edited := named(own(t, "base", content), "b")
		edited.Generation = int64(10 + step)
		c.edit(t, edited)
		c.run(t)
		want := metav1.ConditionTrue
		if content == illegal {
			want = metav1.ConditionFalse
		}
		for _, name := range []string{"base", "middle", "top"} {
			if got := accepted(name); got != want {
				t.Errorf("step %d: %s is accepted %s, want %s", step, name, got, want)
			}
		}
	}
	if err := c.Delete(t.Context(), own(t, "base", "")); err != nil {
		t.Fatal(err)
	}
	c.run(t)
	if accepted("top") != metav1.ConditionFalse {
		t.Error("the base is gone, and what extends it by way of another is accepted")
	}
}

// TestShares: a ClusterGuestProfile counts the VMs of all namespaces, and names the GuestProfiles of each that disagree with it. It is not judged before each
// namespace was.
func TestShares(t *testing.T) {
	t.Parallel()
	const vm = "{metadata: {namespace: %s, name: %s}, spec: {runStrategy: Always, template: {spec: {domain: {}}}}}"
	c := newCluster(t, object[v1alpha1.ClusterGuestProfile](t,
		"{metadata: {name: everyone, uid: e}, spec: {selector: {}, template: {spec: {terminationGracePeriodSeconds: 1}}}}"),
		own(t, "ours", "selector: {}, template: {spec: {terminationGracePeriodSeconds: 2}}"),
		object[corev1.Namespace](t, "{metadata: {name: team}}"), object[corev1.Namespace](t, "{metadata: {name: shop}}"),
		machineOf(t, vm, "team", "a"), machineOf(t, vm, "shop", "b"), machineOf(t, vm, "shop", "c"))
	status := func() v1alpha1.ClusterGuestProfileStatus {
		var p v1alpha1.ClusterGuestProfile
		if err := c.Get(t.Context(), client.ObjectKey{Name: "everyone"}, &p); err != nil {
			t.Fatal(err)
		}
		return p.Status
	}
	c.controller = &Controller{Client: c, Cached: c, Configuration: config.Default}
	if result, err := c.controller.Reconcile(t.Context(), ofCluster); err != nil || result.RequeueAfter != pause || len(status().Conditions) > 0 {
		t.Errorf("it is judged before the namespaces: %+v %v", result, err)
	}
	c.run(t)
	got := meta.FindStatusCondition(status().Conditions, v1alpha1.ConditionConflicting)
	if status().Selected != 3 || got.Status != metav1.ConditionTrue || !strings.Contains(got.Message, "GuestProfile 'ours' (spec.terminationGracePeriodSeconds)") {
		t.Errorf("selects %d, %+v", status().Selected, got)
	}
	if err := c.Delete(t.Context(), own(t, "ours", "")); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), object[corev1.Namespace](t, "{metadata: {name: shop}}")); err != nil {
		t.Fatal(err)
	}
	c.run(t)
	if got := meta.FindStatusCondition(status().Conditions, v1alpha1.ConditionConflicting); status().Selected != 1 || got.Status != metav1.ConditionFalse {
		t.Errorf("a namespace is gone, and the other has no profile: selects %d, %+v", status().Selected, got)
	}
}

func machineOf(t *testing.T, form, namespace, name string) *v1.VirtualMachine {
	t.Helper()
	return object[v1.VirtualMachine](t, fmt.Sprintf(form, namespace, name))
}

// TestMemoIsBounded: edits and messages of a tenant do not fill the memory of the controller.
func TestMemoIsBounded(t *testing.T) {
	t.Parallel()
	var memo memo
	edited := func(generation int64, bases int) *judged {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindGuestProfile}}
		object.SetName("p")
		object.SetUID("u")
		object.SetGeneration(generation)
		var extends []any
		for i := range bases {
			extends = append(extends, map[string]any{"name": fmt.Sprintf("%s%02d", strings.Repeat("a", 200), i)})
		}
		object.Object["spec"] = map[string]any{"extends": extends, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}}
		one, err := memo.readProfile(v1alpha1.KindGuestProfile, object)
		if err != nil || one.profile == nil {
			t.Fatalf("%v, %v", one, err)
		}
		return one
	}
	for generation := range int64(20) {
		one := edited(generation+1, 8)
		if condition := memo.acceptedCondition(one, []*judged{one}, config.Default()); len(condition.Message) < 1000 {
			t.Fatalf("the message is short: %+v", condition)
		}
	}
	if parsed, verdicts := memo.parsed.Len(), memo.verdicts.Len(); parsed != 1 || verdicts != 0 {
		t.Errorf("%d parsed profiles and %d verdicts are kept of 20 generations of one, want the last one and no long message", parsed, verdicts)
	}
	one := edited(21, 0)
	memo.acceptedCondition(one, []*judged{one}, config.Default())
	if verdicts := memo.verdicts.Len(); verdicts != 1 {
		t.Errorf("%d verdicts are kept of a profile that is accepted", verdicts)
	}
}
