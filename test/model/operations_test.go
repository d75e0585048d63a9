package model

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/pipeline"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
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

// backup is a VM and what it refers to, as a backup tool keeps them.
type backup struct {
	vm        *v1.VirtualMachine
	revisions []*appsv1.ControllerRevision
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
	{"remove a size", 2, (*model).removeSize},
	{"store", 8, (*model).store},
	{"back up", 4, (*model).backUp},
	{"restore revisions", 3, (*model).restoreRevisions},
	{"restore", 6, (*model).restore},
	{"reconcile", 16, (*model).reconcile},
	{"collect", 16, (*model).collect},
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
		m.kiln[0] = newProcess(m.T, m.namespace, m.now)
	}
	m.done.count(operations[i].name, first.live.dead)
	if m.IntN(2) == 0 {
		m.swap()
	}
	m.check()
}

func (m *model) swap() { m.kiln[0], m.kiln[1] = m.kiln[1], m.kiln[0] }

// admit asks the first replica about a VM. What it admits is stored at once or later; requests live for less than a minute.
func (m *model) admit(vm, old *v1.VirtualMachine) {
	m.Helper()
	admitted, refused := m.kiln[0].admit(m.T, vm, old)
	if refused != nil {
		m.note("  %s: refused: %s", vm.Name, refused.Message)
		if refused.Code != 503 {
			m.Fatalf("VM '%s' was refused: %s", vm.Name, refused.Message)
		}
		return
	}
	m.note("  %s: admitted with %v", vm.Name, admitted.Annotations[pipeline.AnnotationPins])
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
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	m.admit(vm, nil)
}

// existing is a VM of the store, nil if there is none.
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

// update changes what has nothing to do with the size, or the size, or forgets the annotations as 'kubectl replace' does.
func (m *model) update() {
	m.Helper()
	old := m.existing()
	if old == nil || old.DeletionTimestamp != nil {
		return
	}
	vm := old.DeepCopy()
	switch m.IntN(4) {
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
	m.must(resolve.Repin(vm))
	m.admit(vm, old)
}

func (m *model) remove() {
	m.Helper()
	if vm := m.existing(); vm != nil {
		m.note("  %s", vm.Name)
		m.must(client.IgnoreNotFound(server.Delete(m.Context(), vm)))
	}
}

// size is what an instancetype is now.
func (m *model) size(name string) *unstructured.Unstructured {
	size := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": fmt.Sprintf("%dMi", 64+64*m.IntN(4))}}}}
	size.SetGroupVersionKind(kinds[3])
	size.SetNamespace(m.namespace)
	size.SetName(name)
	return size
}

// editSize gives a size one of a few contents, so that old ones come back.
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

func (m *model) backUp() {
	m.Helper()
	vm := m.existing()
	if vm == nil {
		return
	}
	kept := backup{vm: vm}
	there := m.revisions()
	for _, value := range pinsOf(vm) {
		for _, name := range names(value) {
			if r := there[name]; r != nil {
				kept.revisions = append(kept.revisions, r)
			}
		}
	}
	m.backups = append(m.backups, kept)
}

// restoreRevisions is the first half of what a backup tool does. Their marks are of a former life.
func (m *model) restoreRevisions() {
	m.Helper()
	if len(m.backups) == 0 {
		return
	}
	for _, r := range pick(m, m.backups).revisions {
		again := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels}, Data: r.Data}
		if revision.Marked(r) {
			again.Annotations = map[string]string{revision.UnusedSince: "2020-01-01T00:00:00Z"}
		}
		m.must(client.IgnoreAlreadyExists(server.Create(m.Context(), again)))
	}
}

// restore is the second half, which may come without the first, and for a VM that is there.
func (m *model) restore() {
	m.Helper()
	if len(m.backups) == 0 {
		return
	}
	if m.IntN(2) == 0 {
		m.restoreRevisions()
	}
	kept := pick(m, m.backups).vm
	m.admit(&v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: kept.Name, Namespace: kept.Namespace, Annotations: maps.Clone(kept.Annotations)}, Spec: *kept.Spec.DeepCopy()}, nil)
}

func (m *model) reconcile() {
	m.Helper()
	key := types.NamespacedName{Namespace: m.namespace, Name: pick(m, machines)}
	_, err := m.kiln[0].controller.Reconcile(m.Context(), ctrl.Request{NamespacedName: key})
	m.note("  %s: %v", key.Name, err) // a cache that lags, or a death: it would be called again
}

func (m *model) collect() {
	m.Helper()
	m.note("  %v", m.kiln[0].collector.Collect(m.Context()))
}

// pass lets time pass. Before it does, requests that are under way have been stored; and caches of admission lag behind by less
// than the grace period.
func (m *model) pass() {
	m.Helper()
	m.store()
	by := pick(m, []time.Duration{time.Minute, 4 * time.Minute, revision.LeastGrace, time.Hour})
	m.ahead += by
	m.stale += by
	if m.stale > revision.LeastGrace-2*time.Minute {
		for _, p := range m.kiln {
			p.admitting.refresh(m.T, kinds...)
		}
		m.stale = 0
	}
	m.note("  %s", by)
}

// catchUp refreshes some kinds of a view of one replica.
func (m *model) catchUp() {
	m.Helper()
	some := slices.Clone(kinds)
	m.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	pick(m, []*view{m.kiln[0].admitting, m.kiln[0].collecting}).refresh(m.T, some[:1+m.IntN(len(some))]...)
}

// tally counts what the histories were made of.
type tally struct {
	sync.Mutex
	steps, deaths int
	by            map[string]int
}

func (c *tally) count(name string, died bool) {
	c.Lock()
	defer c.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.steps++
	c.by[name]++
	if died {
		c.deaths++
	}
}

func (c *tally) String() string {
	return fmt.Sprintf("%d operations, %d processes killed: %v", c.steps, c.deaths, c.by)
}
