package guestpolicy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kilnvm/kiln/pkg/validate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
)

// Bounds of the params that a process keeps for one paramRef. A tenant may write params into the namespace of its VMs, so no namespace takes more than its
// part.
const (
	mostParamBytes     = 16 << 10
	mostNamespaceBytes = 128 << 10
	mostNamespaceNames = 256
	mostStoreBytes     = 32 << 20
)

// omittedKey marks a param that is too large to keep. No object of an API server has it: '/' is in no name of a field that a schema can have.
const omittedKey = "kilnvm.io/omitted"

// reduceParam returns what is kept of a param: the object without what nobody reads, or only its name if it is too large.
func reduceParam(of *unstructured.Unstructured) *unstructured.Unstructured {
	of.SetManagedFields(nil)
	if annotations := of.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		of.SetAnnotations(annotations)
	}
	raw, err := json.Marshal(of.Object)
	if err == nil && len(raw) <= mostParamBytes && validate.Counts(raw) == nil {
		return of
	}
	stub := &unstructured.Unstructured{Object: map[string]any{omittedKey: true}}
	stub.SetGroupVersionKind(of.GroupVersionKind())
	stub.SetNamespace(of.GetNamespace())
	stub.SetName(of.GetName())
	stub.SetResourceVersion(of.GetResourceVersion())
	return stub
}

// paramStore keeps the params of one paramRef, by namespace. It is a toolscache.ReflectorStore: a reflector writes it from one goroutine.
type paramStore struct {
	lock       sync.RWMutex
	namespaces map[string]*paramNamespace
	bytes      int
	// freed means that a param has gone from a namespace of which others were omitted.
	freed bool
	// synced is closed when the first list is complete.
	synced chan struct{}
	once   sync.Once
	// changed is called after a change; nil if nobody needs to know.
	changed func()
}

// paramNamespace are the params of one namespace.
type paramNamespace struct {
	// sorted are in the order of their names. The slice and its objects are replaced, and never changed.
	sorted []*unstructured.Unstructured
	bytes  int
	// omitted are the names of params that are too large, or for which there was no room. Only their number counts after mostNamespaceNames.
	omitted map[string]bool
	more    int
}

var _ toolscache.ReflectorStore = (*paramStore)(nil)

func newParamStore(changed func()) *paramStore {
	return &paramStore{namespaces: map[string]*paramNamespace{}, synced: make(chan struct{}), changed: changed}
}

// Add implements toolscache.ReflectorStore.
func (s *paramStore) Add(object any) error { return s.put(object) }

// Update implements toolscache.ReflectorStore.
func (s *paramStore) Update(object any) error { return s.put(object) }

func (s *paramStore) put(object any) error {
	of, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	s.lock.Lock()
	s.drop(of.GetNamespace(), of.GetName())
	s.add(reduceParam(of))
	s.lock.Unlock()
	s.notify()
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (s *paramStore) Delete(object any) error {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return err
	}
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	s.lock.Lock()
	s.drop(namespace, name)
	if in := s.namespaces[namespace]; in != nil && len(in.omitted)+in.more > 0 {
		s.freed = true
	}
	s.lock.Unlock()
	s.notify()
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (s *paramStore) Replace(all []any, _ string) error {
	s.lock.Lock()
	s.namespaces, s.bytes, s.freed = map[string]*paramNamespace{}, 0, false
	for _, object := range all {
		if of, ok := object.(*unstructured.Unstructured); ok {
			s.add(reduceParam(of))
		}
	}
	s.lock.Unlock()
	s.once.Do(func() { close(s.synced) })
	s.notify()
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (s *paramStore) Resync() error { return nil }

func (s *paramStore) notify() {
	if s.changed != nil {
		s.changed()
	}
}

// add adds a param that is not in the store, if there is room.
func (s *paramStore) add(of *unstructured.Unstructured) {
	in := s.namespaces[of.GetNamespace()]
	if in == nil {
		in = &paramNamespace{}
		s.namespaces[of.GetNamespace()] = in
	}
	size := paramSize(of)
	_, stub := of.Object[omittedKey]
	if stub || in.bytes+size > mostNamespaceBytes || s.bytes+size > mostStoreBytes || len(in.sorted) >= mostNamespaceNames {
		if in.omitted == nil {
			in.omitted = map[string]bool{}
		}
		if len(in.omitted) < mostNamespaceNames {
			in.omitted[of.GetName()] = true
		} else {
			in.more++
		}
		return
	}
	at, _ := in.find(of.GetName())
	in.sorted = slices.Insert(slices.Clone(in.sorted), at, of)
	in.bytes += size
	s.bytes += size
}

// drop removes a param. What was omitted for want of room stays omitted until the next list.
func (s *paramStore) drop(namespace, name string) {
	in := s.namespaces[namespace]
	if in == nil {
		return
	}
	if at, found := in.find(name); found {
		size := paramSize(in.sorted[at])
		in.bytes -= size
		s.bytes -= size
		in.sorted = slices.Delete(slices.Clone(in.sorted), at, at+1)
	}
	delete(in.omitted, name)
	if len(in.sorted)+len(in.omitted)+in.more == 0 {
		delete(s.namespaces, namespace)
	}
}

// find returns where a name is, or belongs, among the params of a namespace.
func (n *paramNamespace) find(name string) (int, bool) {
	return slices.BinarySearchFunc(n.sorted, name, func(of *unstructured.Unstructured, name string) int { return strings.Compare(of.GetName(), name) })
}

// paramSize returns how many bytes of JSON a param has.
func paramSize(of *unstructured.Unstructured) int {
	raw, err := json.Marshal(of.Object)
	if err != nil {
		return mostParamBytes
	}
	return len(raw)
}

// inNamespace returns the params of a namespace, or an error if not all of them were kept: a policy must not judge by a part.
func (s *paramStore) inNamespace(namespace string) ([]*unstructured.Unstructured, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	in := s.namespaces[namespace]
	switch {
	case in == nil:
		return nil, nil
	case len(in.omitted) > 0 || in.more > 0:
		named := ""
		for name := range in.omitted {
			if named == "" || name < named {
				named = name
			}
		}
		return nil, fmt.Errorf("%d params of namespace '%s' are not read, such as '%s': one may have %d bytes, and all of a namespace %d", len(in.omitted)+in.more,
			namespace, named, mostParamBytes, mostNamespaceBytes)
	}
	return in.sorted, nil
}

// hasSpace reports whether params were omitted and others have gone since, so that a list may find space for them.
func (s *paramStore) hasSpace() bool {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.freed
}
