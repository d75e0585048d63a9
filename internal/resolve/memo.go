package resolve

import (
	"github.com/kilnvm/kiln/internal/revision"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Memo caches what was decoded from stored objects: ten thousand VMs of one instancetype verify and decode its revision once. It is safe for
// concurrent use. Its values are shared and must not be changed. The nil Memo caches nothing.
type Memo struct{ entries *lru.Cache }

// memoSize is the number of values, of about 2 KiB each: a thousand instancetypes and preferences in a few namespaces.
const memoSize = 4096

// NewMemo returns an empty Memo.
func NewMemo() *Memo { return &Memo{lru.New(memoSize)} }

// version identifies stored content: UID and resourceVersion never stand for two contents. The purpose is the namespace of a live object's
// snapshot, or the kind that a revision is read as.
type version struct {
	uid      types.UID
	resource string
	purpose  string
}

// memoized returns what fresh returned for this version of an object, else calls fresh. Objects of files have no version and are not cached,
// nor are errors.
func memoized[T any](m *Memo, object metav1.Object, purpose string, fresh func() (T, error)) (T, error) {
	v := version{object.GetUID(), object.GetResourceVersion(), purpose}
	if m == nil || v.uid == "" || v.resource == "" {
		return fresh()
	}
	if known, ok := m.entries.Get(v); ok {
		return known.(T), nil
	}
	made, err := fresh()
	if err == nil {
		m.entries.Add(v, made)
	}
	return made, err
}

// draft returns the snapshot of a live object for a namespace.
func (r Resolver) draft(namespace string, object *unstructured.Unstructured) (revision.Draft, error) {
	return memoized(r.Memo, object, namespace, func() (revision.Draft, error) { return revision.NewDraft(namespace, object) })
}
