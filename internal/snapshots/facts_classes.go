package snapshots

import (
	"context"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/snapshot"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// withClasses adds the DeviceClasses that the claims of a VM ask for: without its class a claim is never served.
func (s *seeing) withClasses(ctx context.Context, needs []snapshot.Need) ([]snapshot.Need, error) {
	all := needs
	for _, need := range needs {
		var devices []string
		switch need.Kind {
		case snapshot.ResourceClaim:
			devices = []string{"spec", "devices", "requests"}
		case snapshot.ResourceClaimTemplate:
			devices = []string{"spec", "spec", "devices", "requests"}
		default:
			continue
		}
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(kinds[need.Kind])
		found, err := objects.GetOrNil(ctx, s.Live, types.NamespacedName{Namespace: need.Namespace, Name: need.Name}, found)
		if meta.IsNoMatchError(err) || err == nil && found == nil {
			continue // which is a cause of its own
		}
		if err != nil {
			return nil, err
		}
		requests, _, _ := unstructured.NestedSlice(found.Object, devices...)
		for _, name := range classesOf(requests) {
			all = append(all, snapshot.Need{Object: snapshot.Object{Kind: snapshot.DeviceClass, Name: name}, Path: need.Path, Device: need.Device})
		}
	}
	return all, nil
}

// classesOf returns the classes of requests that have no alternative.
func classesOf(requests []any) (names []string) {
	for _, request := range requests {
		of, _ := request.(map[string]any)
		if name, _, _ := unstructured.NestedString(of, "exactly", "deviceClassName"); name != "" {
			names = append(names, name)
		}
	}
	return names
}
