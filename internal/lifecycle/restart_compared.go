package lifecycle

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// comparedEdit identifies a VM and a VMI that were compared. Each content of either has its own comparedEdit, so that one comparison serves all reconciles.
type comparedEdit struct {
	vm, vmi    types.UID
	generation int64
	// pins, hardware and identity are annotations of the VM, which do not change its generation.
	pins, hardware, identity string
	// live reports whether the guest could be changed while it runs: that depends on the phase of the VMI and on the configuration.
	live bool
}

func (c *Controller) comparedEditOf(s *state) comparedEdit {
	annotations := s.vm.Annotations
	return comparedEdit{s.vm.UID, s.vmi.UID, s.vm.Generation,
		annotations[v1alpha1.AnnotationPins], annotations[v1alpha1.AnnotationHardware], annotations[v1alpha1.AnnotationIdentity],
		c.canChangeLive(s)}
}

// comparisons contains the result of the last comparison of each edited VM. The zero value is ready to use.
type comparisons struct {
	mu      sync.Mutex
	results map[types.NamespacedName]comparison
}

type comparison struct {
	of     comparedEdit
	result pendingEdit
}

func (m *comparisons) find(key types.NamespacedName, of comparedEdit) (pendingEdit, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.results[key]
	return known.result, found && known.of == of
}

func (m *comparisons) keep(key types.NamespacedName, of comparedEdit, result pendingEdit) {
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
