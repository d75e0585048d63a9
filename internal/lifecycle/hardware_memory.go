package lifecycle

import (
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// What the hardware reconciler remembers is lost with its process. Both memories are shortcuts: correctness never depends on them.

// settledInputs remembers the inputs of each name with which a reconcile had nothing to do. Most events of a VMI change none of its inputs, and then the
// GuestHardware is not read from the API server.
type settledInputs struct {
	sync.Mutex
	byName map[types.NamespacedName]hardwareInputs
}

// has reports whether a name was last settled with these inputs.
func (s *settledInputs) has(key types.NamespacedName, in hardwareInputs) bool {
	s.Lock()
	defer s.Unlock()
	last, found := s.byName[key]
	return found && last == in
}

// add remembers the inputs of a name. It forgets a name without any object, so that the map does not grow forever.
func (s *settledInputs) add(key types.NamespacedName, in hardwareInputs) {
	s.Lock()
	defer s.Unlock()
	if s.byName == nil {
		s.byName = map[types.NamespacedName]hardwareInputs{}
	}
	s.byName[key] = in
	if in == (hardwareInputs{}) {
		delete(s.byName, key)
	}
}

// bootAssignment is a VMI and the hardware that its GuestHardware contained when the VMI was assigned to it.
type bootAssignment struct {
	vmi      types.UID
	hardware *v1alpha1.HardwareRecord
}

// lastBootHardware remembers the hardware of the last boot while a guest starts, so that an event can report what the new boot changed. After a restart of
// this process, that event is missing.
type lastBootHardware struct {
	sync.Mutex
	byName map[types.NamespacedName]bootAssignment
}

func (p *lastBootHardware) add(key types.NamespacedName, a bootAssignment) {
	p.Lock()
	defer p.Unlock()
	if p.byName == nil {
		p.byName = map[types.NamespacedName]bootAssignment{}
	}
	p.byName[key] = a
}

// remove forgets an assignment and returns it.
func (p *lastBootHardware) remove(key types.NamespacedName) bootAssignment {
	p.Lock()
	defer p.Unlock()
	a := p.byName[key]
	delete(p.byName, key)
	return a
}
