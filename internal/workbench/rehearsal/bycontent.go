package rehearsal

import (
	"context"
	"encoding/json"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byContent gives instancetypes, preferences, profiles and Kiln's revisions a UID and a resourceVersion that identify their content, by which a bench keeps
// decoded objects: thousands of namespaces have a revision of the same content, and objects of files may have any UID.
type byContent struct{ client.Reader }

// contentUID is the UID of objects whose resourceVersion is the digest of their content.
const contentUID types.UID = "content"

// Get reads one object.
func (b byContent) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if err := b.Reader.Get(ctx, key, into, options...); err != nil {
		return err
	}
	switch object := into.(type) {
	case *appsv1.ControllerRevision:
		identifyRevision(object)
	case *unstructured.Unstructured:
		if identifiedKinds[object.GetKind()] {
			identify(object)
		}
	}
	return nil
}

// List reads the objects of a kind.
func (b byContent) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := b.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if all, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range all.Items {
			if identifiedKinds[all.Items[i].GetKind()] {
				identify(&all.Items[i])
			}
		}
	}
	return nil
}

// identifiedKinds are the kinds whose objects are read untyped and decoded for each VM.
var identifiedKinds = map[string]bool{
	instancetype.Kinds.Cluster: true, instancetype.Kinds.Namespaced: true, instancetype.PreferenceKinds.Cluster: true,
	instancetype.PreferenceKinds.Namespaced: true, "GuestProfile": true, "ClusterGuestProfile": true,
}

// identify sets UID and resourceVersion of an object.
func identify(object *unstructured.Unstructured) {
	object.SetUID("")
	object.SetResourceVersion("")
	if raw, err := json.Marshal(object.Object); err == nil {
		object.SetUID(contentUID)
		object.SetResourceVersion(digestOf(raw))
	}
}

// identifyRevision sets UID and resourceVersion of a revision. A revision of KubeVirt, and one that the collector has marked, are decoded each time, because
// more than their content counts.
func identifyRevision(r *appsv1.ControllerRevision) {
	r.UID, r.ResourceVersion = "", ""
	if instancetype.Addressed(r.Name) && !revision.Marked(r) {
		r.UID, r.ResourceVersion = contentUID, r.Name+" "+digestOf(r.Data.Raw)
	}
}
