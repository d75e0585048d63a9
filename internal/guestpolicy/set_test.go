package guestpolicy

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// written is a policy with one expression.
func written(name, uid string, generation int64, expression string) *v1alpha1.GuestPolicy {
	p := &v1alpha1.GuestPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Generation: generation}}
	p.Spec.Validations = []v1alpha1.GuestPolicyValidation{{Expression: expression}}
	return p
}

// TestSet: policies are in the order of their names, compiled once for each generation, replaced when they change, and dropped when they are deleted.
func TestSet(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	informers := &informertest.FakeInformers{Scheme: scheme}
	informer, err := informers.FakeInformerFor(t.Context(), &v1alpha1.GuestPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{Log: logr.Discard()}
	if now, err := s.Now(); err == nil || s.Ready(nil) == nil {
		t.Fatalf("a set that follows nothing has %v", now)
	}
	if err := s.Follow(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	synced := s.synced
	s.synced = func() bool { return false }
	informer.Add(written("early", "0", 1, "true"))
	if now, err := s.Now(); err == nil || s.Ready(nil) == nil {
		t.Fatalf("reviews before the informer has synced read %v", now)
	}
	s.synced = func() bool { return true }
	if synced == nil || s.Ready(nil) != nil {
		t.Fatal("it does not get ready")
	}
	names := func() (all []string, by map[string]*policy.Policy) {
		now, err := s.Now()
		if err != nil {
			t.Fatal(err)
		}
		by = map[string]*policy.Policy{}
		for _, p := range now {
			all, by[p.Name] = append(all, p.Name), p
		}
		return all, by
	}
	informer.Delete(written("early", "0", 1, "true"))
	b, a := written("b", "1", 1, "true"), written("a", "2", 1, "object.metadata.name == 'x'")
	informer.Add(b)
	informer.Add(a)
	all, first := names()
	if len(all) != 2 || all[0] != "a" || all[1] != "b" {
		t.Fatalf("policies %v, want a and b in order", all)
	}
	held, _ := s.Now()
	informer.Update(a, written("a", "2", 1, "object.metadata.name == 'x'"))
	if _, now := names(); now["a"] != first["a"] {
		t.Error("a write of the status has the policy compiled again")
	}
	informer.Update(a, written("a", "2", 2, "object.metadata.name == 'y'"))
	if _, now := names(); now["a"] == first["a"] || now["b"] != first["b"] {
		t.Error("only the edited one of the two policies must be compiled")
	}
	informer.Update(b, written("b", "3", 1, "true")) // deleted and created again, and the informer has missed that
	if _, now := names(); now["b"] == first["b"] {
		t.Error("another object of the name keeps the policy of the first")
	}
	informer.Update(b, written("b", "3", 2, "object.nothing"))
	if _, now := names(); len(now["b"].Errors) == 0 {
		t.Error("a policy that does not compile must be in force: its failurePolicy decides")
	}
	s.dropPolicy(toolscache.DeletedFinalStateUnknown{Key: "b"})
	if all, _ := names(); len(all) != 1 {
		t.Errorf("after a deletion that the informer missed: %v", all)
	}
	informer.Delete(a)
	if all, _ := names(); len(all) != 0 {
		t.Errorf("after all deletions: %v", all)
	}
	if len(held) != 2 || held[0] != first["a"] {
		t.Error("what a review holds has changed under it")
	}
}
