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

func objectKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

// TestNext: one object of each webhook is tried at a time. When one of them succeeds, all objects of that webhook are tried, and no other one.
func TestNext(t *testing.T) {
	w := &Waiting{}
	for i := range 100 {
		w.Note(objectKey(fmt.Sprint("a", i)), "a")
	}
	w.Note(objectKey("b1"), "b")
	w.Note(objectKey("b2"), "b")
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
	w.Forget(objectKey("b1"))
	w.Note(objectKey("a7"), "")
	objects := w.nextToTry()
	if len(objects) != 100 || slices.Contains(objects, objectKey("a7")) || !slices.Contains(objects, objectKey("b2")) {
		t.Errorf("after a7 has succeeded, %d are tried", len(objects))
	}
	if objects = w.nextToTry(); !slices.Equal(objects, []types.NamespacedName{objectKey("b2")}) {
		t.Errorf("then %v", objects)
	}
	w.Note(objectKey("b2"), "b")
	w.Forget(objectKey("b2"))
	if objects = w.nextToTry(); len(objects) > 0 || len(w.byWebhook)+len(w.webhookOf) > 0 {
		t.Errorf("nothing waits, and %v are tried", objects)
	}
}

// TestOtherWebhook: if an object waits for the next webhook, the first one answers.
func TestOtherWebhook(t *testing.T) {
	w := &Waiting{}
	w.Note(objectKey("1"), "a")
	w.Note(objectKey("2"), "a")
	w.Note(objectKey("1"), "b")
	if objects := w.nextToTry(); len(objects) != 2 || objects[0] != objectKey("2") || objects[1] != objectKey("1") {
		t.Errorf("tried: %v", objects)
	}
}
