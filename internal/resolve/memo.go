package resolve

import (
	"bytes"
	"reflect"
	"sync/atomic"

	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Memo caches decoded objects, so that ten thousand VMs of one instancetype verify and decode its revision once. It is safe for concurrent use. Its values
// are shared and must not be changed. A nil Memo caches nothing.
type Memo struct {
	entries, profiles *lru.Cache
	// configured is the snapshot of the configuration that was pinned last.
	configured atomic.Pointer[configured]
}

// configured is a configuration with its snapshot, as a draft of no namespace.
type configured struct {
	defaults config.Defaults
	draft    revision.Draft
}

// memoSize is the number of values, of about 2 KiB each: a thousand instancetypes and preferences in a few namespaces.
const memoSize = 4096

// NewMemo returns an empty Memo.
func NewMemo() *Memo { return &Memo{entries: lru.New(memoSize), profiles: lru.New(profileMemoSize)} }

// profileMemoSize is the number of parsed profiles and of decoded drafts: as many as two namespaces may have. Most have some 10 KiB, but tenants may write
// larger ones. They have a cache of their own: every review reads all profiles of its namespace, and these must not displace the instancetypes of all other
// namespaces.
const profileMemoSize = 512

// forProfiles returns the part of the Memo that caches profiles.
func (m *Memo) forProfiles() *Memo {
	if m == nil {
		return nil
	}
	return &Memo{entries: m.profiles}
}

// version identifies stored content, because an object has one content for one UID and resourceVersion. The purpose is purposeDraft for a live object's
// snapshot, the kind that a revision is read as, or empty for a profile.
type version struct {
	uid      types.UID
	resource string
	purpose  string
}

// memoizeVersion returns the cached value of this version of an object, else it calls fresh and caches the result. It caches neither objects of files, which
// have no version, nor errors.
func memoizeVersion[T any](m *Memo, object metav1.Object, purpose string, fresh func() (T, error)) (T, error) {
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

// snapshotOf returns the cached snapshot of these defaults, else it calls fresh and caches the result. A configuration lasts for days, and each new VM is
// pinned to it.
func (m *Memo) snapshotOf(defaults config.Defaults, fresh func() (revision.Draft, error)) (revision.Draft, error) {
	if m == nil {
		return fresh()
	}
	if last := m.configured.Load(); last != nil && reflect.DeepEqual(last.defaults, defaults) {
		return last.draft, nil
	}
	draft, err := fresh()
	if err == nil {
		m.configured.Store(&configured{defaults, draft})
	}
	return draft, err
}

// decodedDraft is the object that a draft with this data decodes to, in any namespace.
type decodedDraft struct {
	data   []byte
	object *pinObject
}

// decodeDraft returns the object that a draft decodes to, without the draft. It decodes a draft once, because each new VM of a namespace has the draft until
// its revision exists.
func (m *Memo) decodeDraft(f pinKind, draft revision.Draft) (*pinObject, error) {
	if m == nil {
		return f.decodeSnapshot(draft.Name, draft.Data)
	}
	key := version{resource: draft.Name, purpose: f.field}
	if known, ok := m.profiles.Get(key); ok && bytes.Equal(known.(decodedDraft).data, draft.Data) {
		return known.(decodedDraft).object, nil
	}
	made, err := f.decodeSnapshot(draft.Name, draft.Data)
	if err == nil {
		m.profiles.Add(key, decodedDraft{draft.Data, made})
	}
	return made, err
}

// cachedDraft returns the cached draft of this version of an object for a namespace, and whether it is cached.
func (m *Memo) cachedDraft(namespace string, object metav1.Object) (revision.Draft, bool) {
	if m == nil || object.GetUID() == "" || object.GetResourceVersion() == "" {
		return revision.Draft{}, false
	}
	known, ok := m.entries.Get(version{object.GetUID(), object.GetResourceVersion(), purposeDraft})
	if !ok {
		return revision.Draft{}, false
	}
	draft := known.(revision.Draft)
	draft.Namespace = namespace
	return draft, true
}

// purposeDraft is the purpose of a live object's snapshot.
const purposeDraft = "draft"

// newDraft returns the snapshot of a live object for a namespace. The snapshot is taken once for all namespaces.
func (r reader) newDraft(namespace string, object *unstructured.Unstructured) (revision.Draft, error) {
	draft, err := memoizeVersion(r.memo, object, purposeDraft, func() (revision.Draft, error) { return revision.NewDraft("", object) })
	draft.Namespace = namespace
	return draft, err
}
