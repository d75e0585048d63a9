package resolve

import (
	"context"
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/profile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared gives out the objects of a cache, not copies, as informers do with client.UnsafeDisableDeepCopy.
type shared struct {
	client.Reader
	profiles []unstructured.Unstructured
}

func (s shared) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if all, ok := list.(*unstructured.UnstructuredList); ok && all.GetKind() == v1alpha1.KindGuestProfile+"List" {
		all.Items = append(all.Items, s.profiles...)
	}
	return nil
}

// BenchmarkProfilesThatSelectNothing is what 50 profiles cost a VM that none of them selects.
func BenchmarkProfilesThatSelectNothing(b *testing.B) {
	var cached shared
	for i := range 50 {
		cached.profiles = append(cached.profiles, unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindGuestProfile,
			"metadata": map[string]any{"name": fmt.Sprintf("p%d", i), "uid": fmt.Sprint(i), "resourceVersion": "1"},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
				"template": map[string]any{"spec": map[string]any{"hostname": "a"}}},
		}})
	}
	r, vmi := Resolver{Cached: cached, Memo: NewMemo()}, admit.Instance(labelled("web"))
	b.ReportAllocs()
	for b.Loop() {
		in, err := r.Input(b.Context(), namespace, Resolution{}, config.Cluster{})
		if err != nil || len(in.Profiles) != 50 {
			b.Fatal(len(in.Profiles), err)
		}
		if plan, errs := profile.PlanFor(in.Profiles, vmi); plan != nil || len(errs) > 0 {
			b.Fatal(plan, errs)
		}
	}
}
