package resolve

import (
	"github.com/kilnvm/kiln/internal/revision"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Memo remembers what was read from stored objects, so that ten thousand VMs of one instancetype verify and decode its revision
// once. Safe for concurrent use; what it holds is shared and must not be changed. The nil Memo remembers nothing.
type Memo struct{ entries *lru.Cache }

// memoSize is in objects of about 2 KiB: a thousand instancetypes and preferences in a few namespaces.
const memoSize = 4096

// NewMemo is an empty memo.
func NewMemo() *Memo { return &Memo{lru.New(memoSize)} }

// version of a stored object never changes its content. The purpose is what it was read for: a live object has a snapshot in
// each namespace, and a revision is asked for as an instancetype or as a preference.
type version struct {
	uid      types.UID
	resource string
	purpose  string
}

// recall is what fresh returned for this version of an object, or returns now. Objects that no API server has stored, such
// as those of files, have no version.
func recall[T any](m *Memo, object metav1.Object, purpose string, fresh func() (T, error)) (T, error) {
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

// draft is the snapshot of a live object for a namespace.
func (r Resolver) draft(namespace string, object *unstructured.Unstructured) (revision.Draft, error) {
	return recall(r.Memo, object, namespace, func() (revision.Draft, error) { return revision.NewDraft(namespace, object) })
}
