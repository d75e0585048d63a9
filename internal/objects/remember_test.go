package objects

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counting counts what is read.
type counting struct {
	client.Reader
	gets, lists *int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	*c.gets++
	return c.Reader.Get(ctx, key, into, options...)
}

func (c counting) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	*c.lists++
	return c.Reader.List(ctx, into, options...)
}

// TestRemember: each object and each list is read once, a missing object too, and a caller may change its copy.
func TestRemember(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var gets, lists int
	reader := Remember(counting{New(scheme, secret("team", "a", "x"), secret("other", "a", "y")), &gets, &lists})
	for range 3 {
		var typed corev1.Secret
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "a"}, &typed); err != nil || typed.StringData["from"] != "x" {
			t.Errorf("%v %v", typed, err)
		}
		typed.StringData["from"] = "changed"
		untyped := secret("", "", "")
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "a"}, untyped); err != nil || untyped.GetNamespace() != "other" {
			t.Errorf("%v %v", untyped, err)
		}
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, &typed); !apierrors.IsNotFound(err) {
			t.Errorf("want NotFound: %v", err)
		}
		for namespace, want := range map[string]int{"team": 1, "": 2, "none": 0} {
			var list corev1.SecretList
			if err := reader.List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != want {
				t.Errorf("%s: %d, want %d: %v", namespace, len(list.Items), want, err)
			}
			for i := range list.Items {
				list.Items[i].StringData["from"] = "changed"
			}
		}
		var some corev1.SecretList
		if err := reader.List(t.Context(), &some, client.MatchingLabels{"a": "b"}); err != nil {
			t.Error(err)
		}
	}
	if gets != 3 || lists != 3+3 {
		t.Errorf("%d gets, want 3; %d lists, want 3 remembered and 3 with a selector", gets, lists)
	}
}
