package outage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestWebhookOf(t *testing.T) {
	refused := errors.New(`failed calling webhook "vms.example.com": failed to call webhook: Post "https://a": dial tcp 127.0.0.1:1: connect: connection refused`)
	for _, c := range []struct {
		why  string
		err  error
		want string
	}{
		{"the API server's error", apierrors.NewInternalError(refused), "vms.example.com"},
		{"wrapped", fmt.Errorf("creating pod 'a': %w", apierrors.NewInternalError(refused)), "vms.example.com"},
		{"a denial that repeats it", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", refused), ""},
		{"another internal error", apierrors.NewInternalError(errors.New("etcd is gone")), ""},
		{"not of the API server", refused, ""},
		{"none", nil, ""},
	} {
		if got := WebhookOf(c.err); got != c.want {
			t.Errorf("%s: '%s'", c.why, got)
		}
	}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

// TestNext: one object of each webhook is tried at a time. When one of them has got through, all of that webhook are, and none of another.
func TestNext(t *testing.T) {
	w := &Waiting{}
	for i := range 100 {
		w.Note(named(fmt.Sprint("a", i)), "a")
	}
	w.Note(named("b1"), "b")
	w.Note(named("b2"), "b")
	tried := map[types.NamespacedName]bool{}
	for range 1000 {
		objects := w.nextToTry()
		if len(objects) != 2 {
			t.Fatalf("tried at a time: %v", objects)
		}
		for _, object := range objects {
			tried[object] = true
		}
	}
	if len(tried) < 50 {
		t.Errorf("%d of 102 objects had a turn", len(tried))
	}
	w.Forget(named("b1"))
	w.Note(named("a7"), "")
	objects := w.nextToTry()
	if len(objects) != 100 || slices.Contains(objects, named("a7")) || !slices.Contains(objects, named("b2")) {
		t.Errorf("after a7 has got through %d are tried", len(objects))
	}
	if objects = w.nextToTry(); !slices.Equal(objects, []types.NamespacedName{named("b2")}) {
		t.Errorf("then %v", objects)
	}
	w.Note(named("b2"), "b")
	w.Forget(named("b2"))
	if objects = w.nextToTry(); len(objects) > 0 || len(w.byWebhook)+len(w.webhookOf) > 0 {
		t.Errorf("nothing waits, and %v are tried", objects)
	}
}

// TestOtherWebhook: an object that the next webhook does not let pass has shown that the first one answers.
func TestOtherWebhook(t *testing.T) {
	w := &Waiting{}
	w.Note(named("1"), "a")
	w.Note(named("2"), "a")
	w.Note(named("1"), "b")
	if objects := w.nextToTry(); len(objects) != 2 || objects[0] != named("2") || objects[1] != named("1") {
		t.Errorf("tried: %v", objects)
	}
}
