package model

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// backup is a VM and what it refers to, as a backup tool keeps them.
type backup struct {
	vm        *v1.VirtualMachine
	revisions []*appsv1.ControllerRevision
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
			again.Annotations = map[string]string{v1alpha1.AnnotationUnusedSince: "2020-01-01T00:00:00Z"}
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
	m.admit(&v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: kept.Name, Namespace: kept.Namespace, Annotations: maps.Clone(kept.Annotations)},
		Spec: *kept.Spec.DeepCopy()}, nil)
}

func (m *model) reconcile() {
	m.Helper()
	key := types.NamespacedName{Namespace: m.namespace, Name: pick(m, machines)}
	_, err := m.kiln[0].controller.Reconcile(m.Context(), ctrl.Request{NamespacedName: key})
	m.note("  %s: %v", key.Name, err) // a cache that lags, or a death: it would be called again
}

// collect often sees the revisions as they are while it does not see who refers to them: of two watches, either can be stuck.
func (m *model) collect() {
	m.Helper()
	if m.IntN(4) > 0 {
		m.kiln[0].collecting.refresh(m.T, kinds[0])
	}
	m.note("  %v", m.kiln[0].collector.Collect(m.Context()))
}

// stuck is a collector that does not hear of VMs any more: it marks the revision of one that has just come, and comes back for it when
// the grace period is over.
func (m *model) stuck() {
	m.Helper()
	m.create()
	for range 2 {
		m.kiln[0].collecting.refresh(m.T, kinds[0])
		m.note("  %v", m.kiln[0].collector.Collect(m.Context()))
		m.store()
		m.let(revision.MinGrace)
	}
}

// pass lets time pass. Before it does, requests that are under way have been stored; and caches of admission lag behind by less
// than the grace period.
func (m *model) pass() {
	m.Helper()
	m.store()
	m.let(pick(m, []time.Duration{time.Minute, 4 * time.Minute, revision.MinGrace, time.Hour}))
}

func (m *model) let(by time.Duration) {
	m.Helper()
	m.ahead += by
	m.stale += by
	if m.stale > revision.MinGrace-2*time.Minute {
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

// stop deletes a VMI, as its owner does to get a new one.
func (m *model) stop() {
	m.Helper()
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: pick(m, machines), Namespace: m.namespace}}
	m.must(client.IgnoreNotFound(server.Delete(m.Context(), vmi)))
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
