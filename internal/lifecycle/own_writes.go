package lifecycle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownWriteArrives is the longest time that a reconcile waits for the event of a status that this process has written. It bounds the wait where the event
// never comes: after a restore of etcd, resource versions start again from a lower number.
const ownWriteArrives = 2 * time.Second

// ownWrites has the resource versions of the statuses that this process has written and whose events have not arrived yet. The event of a VMI that a
// reconcile created may arrive before that of the VM's status: without this a second reconcile would write the same status again, and be refused with a
// conflict. The zero value is ready to use.
type ownWrites struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]ownWrite
}

type ownWrite struct {
	version string
	at      time.Time
}

// note records that the status of a VM was written; vm is the API server's answer.
func (w *ownWrites) note(vm *v1.VirtualMachine, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]ownWrite{}
	}
	w.versions[client.ObjectKeyFromObject(vm)] = ownWrite{vm.ResourceVersion, now}
}

// ahead reports whether a VM of the cache is older than the status that this process wrote last. It is false after ownWriteArrives, and for resource
// versions that are not numbers.
func (w *ownWrites) ahead(vm *v1.VirtualMachine, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(vm)
	written, found := w.versions[key]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(vm.ResourceVersion, written.version)
	if age := now.Sub(written.at); err == nil && order < 0 && age >= 0 && age < ownWriteArrives {
		return true
	}
	delete(w.versions, key)
	return false
}

// forget drops the entry of a VM that does not exist.
func (w *ownWrites) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, key)
}
