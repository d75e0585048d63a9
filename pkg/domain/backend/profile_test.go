package backend_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/render"
	"github.com/kilnvm/kiln/test/backends"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestEveryFieldOfAProfile: each has its element, and none changes what the guest sees.
func TestEveryFieldOfAProfile(t *testing.T) {
	t.Parallel()
	plain, errs := render.Domain(backends.Tuned(t))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	without := partXML(t, *plain.Documents.Domain)
	listed := map[string]bool{}
	for _, c := range backends.ProfileFields {
		listed[c.Field] = true
		m := backends.Tuned(t)
		m.Policy = backends.PolicyOf(t, m, backends.HostProfile(t, "p", c.Spec()))
		out, errs := render.Domain(m)
		if field, refused := strings.CutPrefix(c.Want, "refused "); refused {
			if got := causes(errs); got != "FieldValueInvalid "+field || !strings.Contains(errs[0].Detail, "hostProfile."+c.Field) {
				t.Errorf("%s: %v", c.Field, errs)
			}
			continue
		}
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.Field, errs.ToAggregate())
			continue
		}
		if text := partXML(t, *out.Documents.Domain); !strings.Contains(text, c.Want) {
			t.Errorf("%s: no '%s' in\n%s", c.Field, c.Want, text)
		}
		if strings.Contains(without, c.Want) {
			t.Errorf("%s: '%s' is there without it too", c.Field, c.Want)
		}
		if out.Record.Digest != plain.Record.Digest {
			t.Errorf("%s changes what the guest sees", c.Field)
		}
	}
	for _, field := range leaves(reflect.TypeFor[v1alpha1.HostPolicy](), "") {
		if !listed[field] {
			t.Errorf("%s is in no row: what does it do?", field)
		}
	}
}

// leaves are the paths of all fields that are no structs.
func leaves(kind reflect.Type, at string) (paths []string) {
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if inner := kind.Field(i).Type; inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct && inner != reflect.TypeFor[*resource.Quantity]() {
			paths = append(paths, leaves(inner.Elem(), at+name+".")...)
		} else {
			paths = append(paths, at+name)
		}
	}
	return paths
}
