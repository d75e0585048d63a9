// Package ownwrite recognizes a cached object that is older than the last write of this process. Otherwise a second reconcile would write the same change
// again, and be refused with a conflict.
package ownwrite

import (
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Gone reports whether an error means that the object of a write does not exist any more, for an object of one of these resources with this name. It was
// deleted after it was read, and the event of the deletion has not arrived yet.
func Gone(err error, name string, resources ...string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	return details.Name == name && slices.Contains(resources, details.Kind) // which is the resource, in lower case
}

// Arrives is the longest time that a reconcile waits for the event of a write of this process. The event may never come: after a restore of etcd, resource
// versions start again from a lower number.
const Arrives = 2 * time.Second

// Memo has the resource versions of objects of one kind that this process has written and whose events have not arrived yet. The event of another object may
// arrive earlier, and cause a reconcile of the written one. The zero value is ready to use.
type Memo struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]write
}

type write struct {
	version string
	at      time.Time
}

// Note records a write. object is the API server's answer.
func (m *Memo) Note(object client.Object, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions == nil {
		m.versions = map[types.NamespacedName]write{}
	}
	m.versions[client.ObjectKeyFromObject(object)] = write{object.GetResourceVersion(), now}
}

// Ahead reports whether a cached object is older than the last write of this process. It returns false after Arrives, and for resource versions that are not
// numbers.
func (m *Memo) Ahead(object client.Object, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	written, found := m.versions[key]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written.version)
	if age := now.Sub(written.at); err == nil && order < 0 && age >= 0 && age < Arrives {
		return true
	}
	delete(m.versions, key)
	return false
}

// Forget drops the write of an object that does not exist.
func (m *Memo) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, key)
}

// Len returns the number of remembered writes.
func (m *Memo) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.versions)
}
