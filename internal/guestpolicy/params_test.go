package guestpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// param is a ConfigMap with some data.
func param(namespace, name, data string) *unstructured.Unstructured {
	of := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"text": data}}}
	of.SetNamespace(namespace)
	of.SetName(name)
	return of
}

// names returns the names of params.
func names(all []*unstructured.Unstructured) (found []string) {
	for _, of := range all {
		found = append(found, of.GetName())
	}
	return found
}

// TestParamStoreIsBounded: a namespace has its params in the order of their names, and keeps no more than its part. A policy does not judge by some of them,
// and what one namespace writes takes nothing from another.
func TestParamStoreIsBounded(t *testing.T) {
	s := newParamStore(nil)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Replace([]any{param("team", "b", "1"), param("team", "a", "1"), param("other", "a", "1")}, "1"))
	must(s.Add(param("team", "c", "1")))
	must(s.Update(param("team", "b", "2")))
	must(s.Delete(param("team", "a", "1")))
	found, err := s.inNamespace("team")
	if got := names(found); err != nil || fmt.Sprint(got) != "[b c]" || fmt.Sprint(found[0].Object["data"]) != "map[text:2]" {
		t.Fatalf("%v, %v", found, err)
	}
	large := param("team", "large", strings.Repeat("x", mostParamBytes))
	large.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	must(s.Add(large))
	if _, err := s.inNamespace("team"); err == nil || !strings.Contains(err.Error(), "'large'") || s.hasSpace() {
		t.Errorf("a param that is too large: %v", err)
	}
	must(s.Delete(large))
	if found, err := s.inNamespace("team"); err != nil || len(found) != 2 || s.hasSpace() {
		t.Errorf("without it: %v, %v", found, err)
	}
	for i := range 20_000 { // 320 MB of them
		must(s.Add(param("hostile", fmt.Sprintf("p%d", i), strings.Repeat("x", mostParamBytes-200))))
	}
	if in := s.namespaces["hostile"]; in.bytes > mostNamespaceBytes || len(in.omitted) > mostNamespaceNames || s.bytes > mostNamespaceBytes+1000 {
		t.Errorf("it keeps %d bytes and %d names of a namespace, %d bytes in all", in.bytes, len(in.omitted), s.bytes)
	}
	if _, err := s.inNamespace("hostile"); err == nil {
		t.Error("a policy judges by some of the params")
	}
	must(s.Delete(param("hostile", "p0", "")))
	if !s.hasSpace() {
		t.Error("nothing looks for room for what was omitted")
	}
	if found, err := s.inNamespace("team"); err != nil || len(found) != 2 {
		t.Errorf("another namespace: %v, %v", found, err)
	}
}

// serving returns Params over a fake API server with these objects.
func serving(objects ...runtime.Object) (*Params, *fake.FakeDynamicClient) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "example.org", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Limit"}, meta.RESTScopeRoot)
	lists := map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "configmaps"}: "ConfigMapList", {Group: "example.org", Version: "v1", Resource: "limits"}: "LimitList",
	}
	cluster := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	return &Params{Client: cluster, Mapper: mapper, Log: logr.Discard()}, cluster
}

// parametrised is a policy with params, compiled.
func parametrised(t *testing.T, name, apiVersion, kind string, ref v1alpha1.GuestPolicyParamRef) *policy.Policy {
	t.Helper()
	of := written(name, name, 1, "params != null")
	ref.ParameterNotFoundAction = v1alpha1.PolicyDenyNotFound
	of.Spec.ParamKind, of.Spec.ParamRef = &v1alpha1.GuestPolicyParamKind{APIVersion: apiVersion, Kind: kind}, &ref
	compiled, errs := policy.Compile(of)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestParamsAreFollowed: the params of the policies in force are read from their namespaces, follow changes, and are no longer watched when no policy names
// them.
func TestParamsAreFollowed(t *testing.T) {
	limit := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Limit"}}
	limit.SetName("all")
	p, cluster := serving(param("team", "limits", "1"), param("shared", "limits", "2"), limit)
	own := parametrised(t, "own", "v1", "ConfigMap", v1alpha1.GuestPolicyParamRef{Selector: &metav1.LabelSelector{}})
	shared := parametrised(t, "shared", "v1", "ConfigMap", v1alpha1.GuestPolicyParamRef{Selector: &metav1.LabelSelector{}, Namespace: "shared"})
	wide := parametrised(t, "wide", "example.org/v1", "Limit", v1alpha1.GuestPolicyParamRef{Name: "all"})
	absent := parametrised(t, "absent", "example.org/v1", "Absent", v1alpha1.GuestPolicyParamRef{Name: "all"})
	misplaced := parametrised(t, "misplaced", "example.org/v1", "Limit", v1alpha1.GuestPolicyParamRef{Name: "all", Namespace: "team"})
	p.Follow(t.Context(), []*policy.Policy{own, shared, wide, absent, misplaced})
	eventually(t, "the params are not read", p.Tried)
	read := func(of *policy.Policy, namespace string) (string, error) {
		kind, ref := of.Params()
		found, err := p.Source(t.Context())(*kind, *ref, namespace)
		var texts []string
		for _, one := range found {
			texts = append(texts, one.GetNamespace()+"/"+one.GetName())
		}
		return strings.Join(texts, " "), err
	}
	for _, test := range []struct {
		of        *policy.Policy
		namespace string
		want, err string
	}{
		{own, "team", "team/limits", ""}, {own, "other", "", ""}, {shared, "team", "shared/limits", ""}, {wide, "team", "/all", ""},
		{absent, "team", "", "does not serve kind Absent"}, {misplaced, "team", "", "has no namespaces: remove spec.paramRef.namespace"},
	} {
		if got, err := read(test.of, test.namespace); got != test.want || (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s in %s: %s, %v; want %s %s", test.of.Name, test.namespace, got, err, test.want, test.err)
		}
	}
	maps := cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if _, err := maps.Namespace("team").Create(t.Context(), param("team", "more", "3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new param is not read", func() bool { got, _ := read(own, "team"); return got == "team/limits team/more" })
	if err := maps.Namespace("team").Delete(t.Context(), "limits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted param stays", func() bool { got, _ := read(own, "team"); return got == "team/more" })
	p.Follow(t.Context(), []*policy.Policy{wide})
	if _, err := read(own, "team"); err == nil || len(p.watched) != 1 {
		t.Errorf("params that no policy names are watched: %d, %v", len(p.watched), err)
	}
}

// TestParamsThatMayNotBeRead: the failure says which right is missing, and ends when the right comes.
func TestParamsThatMayNotBeRead(t *testing.T) {
	p, cluster := serving(param("team", "limits", "1"))
	forbidden := true
	gate := make(chan struct{}, 1)
	cluster.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		gate <- struct{}{}
		defer func() { <-gate }()
		return forbidden, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("no right"))
	})
	of := parametrised(t, "p", "v1", "ConfigMap", v1alpha1.GuestPolicyParamRef{Selector: &metav1.LabelSelector{}, Namespace: "team"})
	p.Follow(t.Context(), []*policy.Policy{of})
	eventually(t, "nothing was tried", p.Tried)
	kind, ref := of.Params()
	_, err := p.Source(t.Context())(*kind, *ref, "team")
	if err == nil || !strings.Contains(err.Error(), "may not list and watch kind ConfigMap of v1 in namespace 'team': an administrator must grant it") {
		t.Errorf("%v", err)
	}
	gate <- struct{}{}
	forbidden = false
	<-gate
	eventually(t, "a granted right is not used", func() bool {
		found, err := p.Source(t.Context())(*kind, *ref, "team")
		return err == nil && len(found) == 1
	})
}

// reviewed answers reviews of access.
type reviewed struct {
	client.Writer
	allowed bool
	asked   []authorizationv1.SubjectAccessReviewSpec
}

func (r *reviewed) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review := object.(*authorizationv1.SubjectAccessReview)
	r.asked = append(r.asked, review.Spec)
	review.Status.Allowed = r.allowed
	return nil
}

// TestParamsReadable: the condition says whether the webhook may read the params, and which right it needs.
func TestParamsReadable(t *testing.T) {
	of := written("p", "1", 1, "params != null")
	of.Spec.ParamKind = &v1alpha1.GuestPolicyParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	of.Spec.ParamRef = &v1alpha1.GuestPolicyParamRef{Name: "limits", Namespace: "team", ParameterNotFoundAction: v1alpha1.PolicyDenyNotFound}
	for _, test := range []struct {
		why     string
		kind    string
		allowed bool
		status  metav1.ConditionStatus
		reason  string
		words   string
	}{
		{"granted", "ConfigMap", true, metav1.ConditionTrue, v1alpha1.ReasonParamsReadable, "may list and watch configmaps"},
		{"not granted", "ConfigMap", false, metav1.ConditionFalse, v1alpha1.ReasonParamsForbidden,
			"system:serviceaccount:machines:kiln-webhook needs the verbs list and watch on configmaps with resourceNames [limits] in namespace 'team', by a Role"},
		{"not served", "Absent", true, metav1.ConditionFalse, v1alpha1.ReasonParamKindNotServed, "does not serve kind Absent"},
	} {
		stored := of.DeepCopy()
		stored.Spec.ParamKind.Kind = test.kind
		c := newController(t, stored)
		params, _ := serving()
		authorizer := &reviewed{allowed: test.allowed}
		c.Mapper, c.Writer = params.Mapper, authorizer
		c.account.Store(new(webhookAccount("system:serviceaccount:machines:kiln-controller")))
		request := client.ObjectKeyFromObject(stored)
		result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: request})
		var now v1alpha1.GuestPolicy
		if again := c.Client.Get(t.Context(), request, &now); err != nil || again != nil || result.RequeueAfter == 0 {
			t.Fatalf("%s: %v, %v, again after %v", test.why, err, again, result.RequeueAfter)
		}
		got := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionParamsReadable)
		if got == nil || got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.words) {
			t.Errorf("%s: %+v", test.why, got)
		}
		for _, asked := range authorizer.asked {
			if asked.User != "system:serviceaccount:machines:kiln-webhook" || asked.ResourceAttributes.Name != "limits" ||
				asked.ResourceAttributes.Namespace != "team" ||
				fmt.Sprint(asked.Groups) != "[system:serviceaccounts system:serviceaccounts:machines system:authenticated]" {
				t.Errorf("%s: asked %+v", test.why, asked)
			}
		}
	}
	if got := webhookAccount("admin"); got != "admin" {
		t.Errorf("the account beside an administrator is %s", got)
	}
}

// TestRenewedPolicies: who follows the policies sees others after a change of params, and only those with params are others.
func TestRenewedPolicies(t *testing.T) {
	plain, limited := written("a", "1", 1, "true"), written("b", "2", 1, "params != null")
	limited.Spec.ParamKind = &v1alpha1.GuestPolicyParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	limited.Spec.ParamRef = &v1alpha1.GuestPolicyParamRef{Name: "limits", ParameterNotFoundAction: v1alpha1.PolicyDenyNotFound}
	changes := 0
	s := &Set{Log: logr.Discard(), Changed: func() { changes++ }, synced: func() bool { return true }}
	s.putPolicy(plain)
	s.putPolicy(limited)
	before, err := s.Now()
	s.renewPolicies()
	after, again := s.Now()
	if err != nil || again != nil || len(before) != 2 || len(after) != 2 || before[0] != after[0] || before[1] == after[1] ||
		after[1].Name != "b" || changes != 3 {
		t.Errorf("%v %v, %v %v, %d changes", before, after, err, again, changes)
	}
}

// TestParamsAreReadInPages: all pages are one list.
func TestParamsAreReadInPages(t *testing.T) {
	p, cluster := serving()
	calls := 0
	cluster.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		page := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
		if calls++; calls < 3 {
			page.SetContinue("more")
		}
		page.Items = append(page.Items, *param("team", fmt.Sprintf("p%d", calls), strings.Repeat("x", calls*mostParamBytes/2-1000)))
		return true, page, nil
	})
	resource := cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	lister := &paramLister{client: resource, watched: &watchedParams{paramKey: paramKey{selector: "<none>"}}, params: p}
	listed, err := lister.List(metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	all := listed.(*unstructured.UnstructuredList)
	if calls != 3 || len(all.Items) != 3 || all.GetContinue() != "" || all.Items[0].Object[omittedKey] != nil || all.Items[2].Object[omittedKey] != true {
		t.Errorf("%d calls, %d params, continue %q", calls, len(all.Items), all.GetContinue())
	}
}

// silent is a resource whose server never answers.
type silent struct{ dynamic.ResourceInterface }

func (silent) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilentParams: params whose server never answers count as tried, so that the webhook becomes ready, and reading them fails.
func TestSilentParams(t *testing.T) {
	t.Parallel()
	w := &watchedParams{store: newParamStore(nil), tried: make(chan struct{})}
	p := &Params{Log: logr.Discard(), watched: map[paramKey]*watchedParams{w.paramKey: w}}
	l := &paramLister{client: silent{}, watched: w, params: p, timeout: time.Millisecond}
	if _, err := l.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the list ended with %v", err)
	}
	if !p.Tried() || w.failure.Load() == nil {
		t.Errorf("tried %t, failure %v", p.Tried(), w.failure.Load())
	}
}
