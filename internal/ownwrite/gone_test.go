package ownwrite

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestGone(t *testing.T) {
	of := func(resource, name string) error {
		return apierrors.NewNotFound(schema.GroupResource{Group: "kubevirt.io", Resource: resource}, name)
	}
	for _, c := range []struct {
		why  string
		err  error
		want bool
	}{
		{"the object", of("virtualmachines", "a"), true},
		{"the object, wrapped", fmt.Errorf("writing: %w", of("virtualmachines", "a")), true},
		{"another name", of("virtualmachines", "b"), false},
		{"another kind", of("secrets", "a"), false},
		{"a conflict", apierrors.NewConflict(schema.GroupResource{Resource: "virtualmachines"}, "a", errors.New("changed")), false},
		{"another error", errors.New("virtualmachines \"a\" not found"), false},
		{"no details", &apierrors.StatusError{ErrStatus: apierrors.NewNotFound(schema.GroupResource{}, "").ErrStatus}, false},
		{"none", nil, false},
	} {
		if got := Gone(c.err, "a", "virtualmachineinstances", "virtualmachines"); got != c.want {
			t.Errorf("%s: %t", c.why, got)
		}
	}
}
