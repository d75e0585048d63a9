package lifecycle

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// What the hardware reconciler remembers is lost with its process. Both memories are shortcuts: correctness never depends on them.

// settledInputs remembers the inputs with which a reconcile had nothing to do. Most events of a VMI change none of them, and then the
// GuestHardware is not read from the API server.
type settledInputs struct {
	sync.Mutex
	byName map[types.NamespacedName]inputs
}

// has reports whether the last settled inputs of a name were these.
func (s *settledInputs) has(key types.NamespacedName, in inputs) bool {
	s.Lock()
	defer s.Unlock()
	last, found := s.byName[key]
	return found && last == in
}

// add remembers inputs. Inputs of a name without any object are forgotten, so that the map does not grow for good.
func (s *settledInputs) add(key types.NamespacedName, in inputs) {
	s.Lock()
	defer s.Unlock()
	if s.byName == nil {
		s.byName = map[types.NamespacedName]inputs{}
	}
	s.byName[key] = in
	if in == (inputs{}) {
		delete(s.byName, key)
	}
}

// assignment is the hardware that a GuestHardware held when a VMI was assigned to it.
type assignment struct {
	vmi      types.UID
	hardware *v1alpha1.HardwareRecord
}

// previousHardware remembers the last boot's hardware while a guest starts, to report what the new boot changed. After a restart of this
// process that event is missing.
type previousHardware struct {
	sync.Mutex
	byName map[types.NamespacedName]assignment
}

func (p *previousHardware) add(key types.NamespacedName, a assignment) {
	p.Lock()
	defer p.Unlock()
	if p.byName == nil {
		p.byName = map[types.NamespacedName]assignment{}
	}
	p.byName[key] = a
}

// remove forgets an assignment and returns it.
func (p *previousHardware) remove(key types.NamespacedName) assignment {
	p.Lock()
	defer p.Unlock()
	a := p.byName[key]
	delete(p.byName, key)
	return a
}
