package resolve

import (
	"errors"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/profile"
)

// TestBases: a profile is judged with all that it extends, of its own namespace and of the cluster, each once, and without what does not exist.
func TestBases(t *testing.T) {
	stored := []string{
		"{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: b, namespace: team}, " +
			"spec: {extends: [{name: c}, {kind: ClusterGuestProfile, name: d}]}}",
		"{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: c, namespace: team}, spec: {extends: [{name: a}, {name: gone}]}}",
		"{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: c, namespace: other}, spec: {extends: [{name: foreign}]}}",
		"{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: foreign, namespace: other}}",
		"{apiVersion: kilnvm.io/v1alpha1, kind: ClusterGuestProfile, metadata: {name: d}, spec: {extends: [{name: d}]}}",
		"{apiVersion: kilnvm.io/v1alpha1, kind: GuestProfile, metadata: {name: broken, namespace: team}, spec: {template: {spec: {no: field}}}}",
	}
	for _, test := range []struct {
		why, extends string
		want         []string
		refused      bool
	}{
		{"none", "", nil, false},
		{"all", `{"name": "b"}`, []string{"b", "c", "d"}, false},
		{"one that does not exist", `{"name": "gone"}`, nil, false},
		{"one of another namespace", `{"name": "foreign"}`, nil, false},
		{"one that cannot be read", `{"name": "broken"}`, nil, true},
	} {
		judged, err := profile.Read("", []byte(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestProfile", "metadata": {"name": "a", "namespace": "team"},
			"spec": {"extends": [`+test.extends+`]}}`))
		if err != nil {
			t.Fatal(err)
		}
		bases, err := Resolver{Cached: objects.New(scheme(t), parsed(t, stored...)...)}.Bases(t.Context(), judged)
		var names []string
		for _, base := range bases {
			names = append(names, base.Name)
		}
		slices.Sort(names)
		if refused := errors.As(err, new(*Refusal)); refused != test.refused || err != nil && !refused || !slices.Equal(names, test.want) {
			t.Errorf("%s: %v, %v", test.why, names, err)
		}
	}
}
