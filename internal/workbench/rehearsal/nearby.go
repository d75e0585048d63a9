package rehearsal

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// nearby reads a cluster. It lists the hardware records and the revisions of a namespace with its first VM: thousands of VMs would need a request for each
// record. An API server lists VMs by namespace, so only the objects of one namespace are kept.
type nearby struct {
	client.Reader
	namespace string
	kept      map[schema.GroupKind]client.Reader
}

func newNearby(cluster client.Reader) *nearby { return &nearby{Reader: cluster} }

// nearbyKinds are the kinds that are listed.
var nearbyKinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("GuestHardware"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
}

// Get reads one object.
func (n *nearby) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	scheme, err := crdschema.Scheme()
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(into, scheme)
	if err != nil {
		return err
	}
	for _, listed := range nearbyKinds {
		if listed.GroupKind() != kind.GroupKind() || key.Namespace == "" {
			continue
		}
		if err := n.move(ctx, key.Namespace); err != nil {
			return err
		}
		if kept := n.kept[kind.GroupKind()]; kept != nil {
			return kept.Get(ctx, key, into, options...)
		}
	}
	return n.Reader.Get(ctx, key, into, options...)
}

// move lists the objects of a namespace. A kind that cannot be listed is read object by object.
func (n *nearby) move(ctx context.Context, namespace string) error {
	if n.namespace == namespace {
		return nil
	}
	scheme, err := crdschema.Scheme()
	if err != nil {
		return err
	}
	n.namespace, n.kept = namespace, map[schema.GroupKind]client.Reader{}
	for _, kind := range nearbyKinds {
		var all []*unstructured.Unstructured
		err := manifest.EachPage(ctx, n.Reader, kind, namespace, func(page []manifest.Object) error {
			for _, one := range page {
				if kind.Kind == "ControllerRevision" && one.GetLabels()[revision.Selector] == "" {
					continue // of a StatefulSet or DaemonSet
				}
				one.SetManagedFields(nil)
				all = append(all, one.Unstructured.DeepCopy()) // the page is decoded into the same list again
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case meta.IsNoMatchError(err):
			n.kept[kind.GroupKind()] = objects.New(scheme)
		case err == nil:
			n.kept[kind.GroupKind()] = objects.New(scheme, all...)
		}
	}
	return nil
}
