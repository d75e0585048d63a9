package resolve

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	legal "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads objects and revisions from the cache. It reads an object that the cache lacks once from the API server.
type reader struct {
	cachedObjects client.Reader
	// liveObjects is nil with files.
	liveObjects client.Reader
	memo        *Memo
	ofFiles     bool
}

func (r Resolver) reader() reader { return reader{r.Cached, r.Live, r.Memo, r.OfFiles} }

// readRevision returns a verified revision. It returns nil if the revision does not exist or contains another kind, and a *revision.Untrusted error if its
// content does not have the digest in its name. The revision belongs to the cache: a VM may be pinned to a hundred, and copying them would cost more than
// everything else.
func (r reader) readRevision(ctx context.Context, f pinKind, key client.ObjectKey) (*pinObject, error) {
	var stored appsv1.ControllerRevision
	if err := r.getObject(ctx, key, &stored, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return memoizeVersion(r.memo, &stored, f.field, func() (*pinObject, error) { return f.decodeRevision(&stored) })
}

// decodeRevision verifies and decodes a revision.
func (f pinKind) decodeRevision(stored *appsv1.ControllerRevision) (*pinObject, error) {
	if err := revision.Verify(stored); err != nil {
		return nil, err
	}
	found, err := f.decodeSnapshot(stored.Name, stored.Data.Raw)
	if found != nil && revision.Marked(stored) {
		// The collector is about to delete it. As a draft it is written again, which removes the mark.
		found.draft = &revision.Draft{Namespace: stored.Namespace, Snapshot: instancetype.Snapshot{Name: stored.Name, Data: stored.Data.Raw}, Labels: stored.Labels}
	}
	return found, err
}

// catalogVersion is the apiVersion of instancetypes and preferences.
var catalogVersion = v1beta1.SchemeGroupVersion.String()

// namedObject returns the object that a matcher names, as a snapshot and as the object itself; both are nil if it does not exist. The object belongs to the
// cache and must not be changed: each review of a VM reads two of them, and a copy costs more than the read.
func (r reader) namedObject(ctx context.Context, ref *reference) (*pinObject, *unstructured.Unstructured, error) {
	kind := ref.pinKind.Canonical(ref.kind)
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": catalogVersion, "kind": kind}}
	key := client.ObjectKey{Name: ref.name}
	if kind == ref.Namespaced {
		key.Namespace = ref.namespace
	}
	if err := r.getObject(ctx, key, object, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	found, err := r.snapshotOf(ctx, ref.pinKind, ref.namespace, object)
	return found, object, err
}

// snapshotOf returns the content of a live object as a revision of a namespace: the stored revision, else a draft.
func (r reader) snapshotOf(ctx context.Context, f pinKind, namespace string, object *unstructured.Unstructured) (*pinObject, error) {
	draft, err := r.newDraft(namespace, object)
	if err != nil {
		return nil, err
	}
	return r.storedOrDraft(ctx, f, draft)
}

// storedOrDraft returns the stored revision of a draft, else the draft.
func (r reader) storedOrDraft(ctx context.Context, f pinKind, draft revision.Draft) (*pinObject, error) {
	known, err := r.fromCache().readRevision(ctx, f, client.ObjectKey{Namespace: draft.Namespace, Name: draft.Name})
	if err != nil || known != nil {
		return known, err
	}
	decoded, err := r.memo.decodeDraft(f, draft)
	if decoded == nil || err != nil {
		return nil, err
	}
	found := *decoded
	found.draft = &draft
	return &found, nil
}

// fromCache returns a reader that never calls the API server.
func (r reader) fromCache() reader {
	r.liveObjects = nil
	return r
}

// liveReader returns a reader of the API server, or of the files if there is no API server.
func (r reader) liveReader() client.Reader {
	if r.liveObjects == nil {
		return r.cachedObjects
	}
	return r.liveObjects
}

// getObject reads from the cache, and on a miss once from the API server, because the cache may lag behind.
func (r reader) getObject(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.cachedObjects.Get(ctx, key, object, options...)
	if apierrors.IsNotFound(err) && r.liveObjects != nil && validKey(key) {
		err = r.liveObjects.Get(ctx, key, object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading '%s': %w", key, err)
	}
	return err
}

// validKey reports whether an object can have this name and namespace. For any other, client-go fails without a call, with an error that would become a 500,
// although the user wrote the name.
func validKey(key client.ObjectKey) bool {
	for _, segment := range []string{key.Name, key.Namespace} {
		if len(segment) > validation.DNS1123SubdomainMaxLength || len(legal.IsPathSegmentName(segment)) > 0 {
			return false
		}
	}
	return key.Name != ""
}
