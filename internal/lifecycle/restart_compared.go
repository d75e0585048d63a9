package lifecycle

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// edit identifies what is compared: a VM as it is now, with a VMI. Both have other names for other contents, so that one comparison serves all reconciles.
type edit struct {
	vm, vmi    types.UID
	generation int64
	// pins, hardware and identity are annotations of the VM, which do not count in its generation.
	pins, hardware, identity string
	// live reports whether changes were made that need no restart: before, the guest did not run yet, or the configuration was another one.
	live bool
}

func (c *Controller) editOf(s *state) edit {
	of := s.vm.Annotations
	return edit{s.vm.UID, s.vmi.UID, s.vm.Generation, of[v1alpha1.AnnotationPins], of[v1alpha1.AnnotationHardware], of[v1alpha1.AnnotationIdentity],
		c.changesLive(s)}
}

// comparisons has the result of the last comparison of each VM that was edited. The zero value is ready to use.
type comparisons struct {
	mu      sync.Mutex
	results map[types.NamespacedName]comparison
}

type comparison struct {
	of     edit
	result pendingEdit
}

func (m *comparisons) find(key types.NamespacedName, of edit) (pendingEdit, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.results[key]
	return known.result, found && known.of == of
}

func (m *comparisons) keep(key types.NamespacedName, of edit, result pendingEdit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.results == nil {
		m.results = map[types.NamespacedName]comparison{}
	}
	m.results[key] = comparison{of, result}
}

func (m *comparisons) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.results, key)
}
