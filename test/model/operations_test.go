package model

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Few names, so that histories meet in them.
var (
	sizes    = []string{"s", "m"}
	machines = []string{"a", "b", "c", "d"}
)

// write is a VM that was admitted and that the API server has not stored yet.
type write struct {
	vm     *v1.VirtualMachine
	update bool
}

// operation is one kind of step; weight is how often it comes, compared with the others.
type operation struct {
	name   string
	weight int
	do     func(*model)
}

var operations = []operation{
	{"create", 20, (*model).create},
	{"update", 12, (*model).update},
	{"repin", 6, (*model).repin},
	{"delete", 8, (*model).remove},
	{"edit a size", 8, func(m *model) { m.editSize(pick(m, sizes)) }},
	{"edit the preset", 4, (*model).editPreset},
	{"configure", 4, func(m *model) { m.cpuModel = pick(m, []string{"Haswell", "Nehalem", "Westmere"}) }},
	{"stop a guest", 6, (*model).stop},
	{"remove a size", 2, (*model).removeSize},
	{"store", 8, (*model).store},
	{"back up", 4, (*model).backUp},
	{"restore revisions", 3, (*model).restoreRevisions},
	{"restore", 6, (*model).restore},
	{"reconcile", 16, (*model).reconcile},
	{"collect", 16, (*model).collect},
	{"collect, stuck", 4, (*model).stuck},
	{"pass time", 12, (*model).pass},
	{"catch up", 8, (*model).catchUp},
}

func pick[T any](m *model, of []T) T { return of[m.IntN(len(of))] }

// step does one operation, which may kill the process that it happens in at one of its writes, and may be overtaken by another at
// a write. Then everything must be as it should.
func (m *model) step() {
	m.Helper()
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	at := m.IntN(total)
	i := slices.IndexFunc(operations, func(o operation) bool { at -= o.weight; return at < 0 })
	for _, p := range m.kiln {
		p.live.left, p.live.between = -1, nil
	}
	first := m.kiln[0]
	if m.IntN(2) == 0 {
		first.live.left, first.live.after = m.IntN(3), m.IntN(2) == 0
	}
	if m.IntN(4) == 0 {
		first.live.between = func() {
			m.note("  meanwhile:")
			other := pick(m, []func(*model){(*model).create, (*model).store, (*model).repin, (*model).remove})
			m.swap() // in the other replica
			other(m)
			m.swap()
		}
	}
	m.note("%s", operations[i].name)
	operations[i].do(m)
	if first.live.dead {
		m.note("  killed")
		m.kiln[0] = m.newProcess()
	}
	m.done.count(operations[i].name, first.live.dead)
	if m.IntN(2) == 0 {
		m.swap()
	}
	m.check()
}

func (m *model) swap() { m.kiln[0], m.kiln[1] = m.kiln[1], m.kiln[0] }

// admit asks the first replica about a VM. What it admits is stored at once or later; requests live for less than a minute. A new VM is refused while the
// revision does not exist that its revisionName names: a backup tool has not restored it yet.
func (m *model) admit(vm, old *v1.VirtualMachine) {
	m.Helper()
	name := vm.Spec.Instancetype.RevisionName
	missing := old == nil && name != "" && m.revisions()[name] == nil
	admitted, refused := m.kiln[0].admit(m.T, vm, old)
	if refused != nil {
		m.note("  %s: refused: %s", vm.Name, refused.Message)
		if refused.Code != http.StatusServiceUnavailable && !(missing && refused.Code == http.StatusUnprocessableEntity) {
			m.Fatalf("VM '%s' was refused: %s", vm.Name, refused.Message)
		}
		return
	}
	if missing && m.revisions()[name] == nil { // a cache may have it still: then admission writes it again
		m.Fatalf("VM '%s' was admitted, and there is no revision '%s'", vm.Name, name)
	}
	m.note("  %s: admitted with %v", vm.Name, admitted.Annotations[v1alpha1.AnnotationPins])
	m.writes = append(m.writes, &write{admitted, old != nil})
	if m.IntN(3) > 0 {
		m.store()
	}
}

// store is the API server's own write of what was admitted. It fails when somebody else was faster.
func (m *model) store() {
	m.Helper()
	for _, w := range m.writes {
		var err error
		if w.update {
			err = server.Update(m.Context(), w.vm)
		} else {
			err = server.Create(m.Context(), w.vm)
		}
		m.note("  %s: stored: %v", w.vm.Name, err)
		if err == nil {
			m.admitted[w.vm.UID] = pinsOf(w.vm)
		} else if client.IgnoreNotFound(err) != nil && client.IgnoreAlreadyExists(err) != nil && !conflict(err) {
			m.Fatal(err)
		}
	}
	m.writes = nil
}

func (m *model) create() {
	m.Helper()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: pick(m, machines), Namespace: m.namespace}}
	vm.Spec.RunStrategy = new(pick(m, []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted}))
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: pick(m, sizes), Kind: "VirtualMachineInstancetype"}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: m.labelled()}
	m.admit(vm, nil)
}

// existing returns a VM of the store, nil if the store has no VM.
func (m *model) existing() *v1.VirtualMachine {
	m.Helper()
	found := list(m.T, m.namespace, kinds[1])
	if len(found) == 0 {
		return nil
	}
	vm := &v1.VirtualMachine{}
	read(m.T, pick(m, found), vm)
	return vm
}

// update changes what has nothing to do with the instancetype, or the instancetype, or forgets the annotations as 'kubectl replace' does.
func (m *model) update() {
	m.Helper()
	old := m.existing()
	if old == nil || old.DeletionTimestamp != nil {
		return
	}
	vm := old.DeepCopy()
	switch m.IntN(5) {
	case 4:
		vm.Spec.Template.ObjectMeta = m.labelled()
	case 0:
		vm.Spec.RunStrategy = new(pick(m, []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyHalted}))
	case 1:
		vm.Spec.Instancetype.Name, vm.Spec.Instancetype.RevisionName = pick(m, sizes), ""
	case 2:
		vm.Spec.Template.Spec.Hostname = fmt.Sprint("h", m.IntN(9))
		vm.Annotations = nil
	case 3:
		if pin, _ := pinsOf(vm)["instancetype"].(string); pin != "" {
			vm.Spec.Instancetype.RevisionName = pin
		}
	}
	m.admit(vm, old)
}

func (m *model) repin() {
	m.Helper()
	old := m.existing()
	if old == nil || old.DeletionTimestamp != nil {
		return
	}
	vm := old.DeepCopy()
	m.must(pin.RequestRepin(vm))
	m.admit(vm, old)
}

func (m *model) remove() {
	m.Helper()
	if vm := m.existing(); vm != nil {
		m.note("  %s", vm.Name)
		m.must(client.IgnoreNotFound(server.Delete(m.Context(), vm)))
	}
}

// labelled is the metadata of a VMI that the preset matches, or does not.
func (m *model) labelled() metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{"preset": pick(m, []string{"yes", "no"}), "other": fmt.Sprint(m.IntN(2))}}
}

// editPreset gives the preset one of a few contents, or removes it.
func (m *model) editPreset() {
	m.Helper()
	preset := &v1.VirtualMachineInstancePreset{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: m.namespace}}
	m.must(client.IgnoreNotFound(server.Delete(m.Context(), preset)))
	if m.IntN(3) == 0 {
		return
	}
	preset.Spec.Selector.MatchLabels = map[string]string{"preset": "yes"}
	preset.Spec.Domain = &v1.DomainSpec{Devices: v1.Devices{Watchdog: &v1.Watchdog{Name: "w", WatchdogDevice: v1.WatchdogDevice{
		I6300ESB: &v1.I6300ESBWatchdog{Action: pick(m, []v1.WatchdogAction{v1.WatchdogActionReset, v1.WatchdogActionPoweroff})},
	}}}}
	m.must(server.Create(m.Context(), preset))
}

// size is the present spec of an instancetype.
func (m *model) size(name string) *unstructured.Unstructured {
	size := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": fmt.Sprintf("%dMi", 64+64*m.IntN(4))}}}}
	size.SetGroupVersionKind(kinds[3])
	size.SetNamespace(m.namespace)
	size.SetName(name)
	return size
}

// editSize gives an instancetype one of a few contents, so that old ones come back.
func (m *model) editSize(name string) {
	m.Helper()
	size, now := m.size(name), m.size(name)
	err := server.Get(m.Context(), client.ObjectKeyFromObject(size), now)
	if err != nil {
		m.must(client.IgnoreNotFound(err))
		m.must(server.Create(m.Context(), size))
		return
	}
	now.Object["spec"] = size.Object["spec"]
	m.must(server.Update(m.Context(), now))
}

func (m *model) removeSize() {
	m.Helper()
	m.must(client.IgnoreNotFound(server.Delete(m.Context(), m.size(pick(m, sizes)))))
}
