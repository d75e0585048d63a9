package model

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/test/nightly"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is how many operations a run has at least.
const history = 60

// TestStoreAndCollector runs RUNS random histories (default 10), from SEED on (else from the clock). A history is repeated by
// only its seed: RUNS=1 SEED=n.
func TestStoreAndCollector(t *testing.T) {
	runs, seed := nightly.Number(t, "RUNS", 10), uint64(nightly.Number(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("%d histories from SEED=%d on", runs, seed)
	var done tally
	t.Cleanup(func() { t.Log(done.String()) })
	for run := range uint64(runs) {
		t.Run(fmt.Sprintf("seed=%d", seed+run), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed+run, &done)
			for range history {
				m.step()
			}
			m.end()
		})
	}
}

// model is one history: two replicas of Kiln, a namespace, and what must be true of it.
type model struct {
	*testing.T
	*rand.Rand
	namespace string
	// ahead is how far the clock of this history is ahead of the real one.
	ahead   time.Duration
	kiln    [2]*process
	writes  []*write
	backups []backup
	// stale is how long ago the oldest part of a replica's view for admission was read, at most.
	stale time.Duration
	// admitted are the pins with which each VM was admitted, by key.
	admitted map[types.UID]map[string]any
	// held is what each revision held when it was first seen.
	held map[string]string
	// built is the spec of the first VMI of each VM, pins and labels.
	built map[string]string
	// cpuModel is the cluster's configuration.
	cpuModel string
	done     *tally
	log      []string
}

func newModel(t *testing.T, seed uint64, done *tally) *model {
	t.Helper()
	m := &model{T: t, Rand: rand.New(rand.NewPCG(seed, seed)), admitted: map[types.UID]map[string]any{}, held: map[string]string{},
		built: map[string]string{}, cpuModel: "Haswell", done: done}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("seed-%d-", seed)}}
	m.must(server.Create(t.Context(), made))
	m.namespace = made.Name
	for _, name := range sizes {
		m.editSize(name)
	}
	m.kiln = [2]*process{m.newProcess(), m.newProcess()}
	t.Cleanup(func() {
		if t.Failed() {
			for i, line := range m.log {
				t.Logf("%3d %s", i, line)
			}
		}
	})
	return m
}

func (m *model) now() time.Time { return time.Now().Add(m.ahead) }

func (m *model) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// note tells what happens, for the history of a failure.
func (m *model) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// check fails unless the store is as it must be: no VM or VMI lacks a revision that it was admitted with, and nothing that it
// was admitted with has moved.
func (m *model) check() {
	m.Helper()
	there := m.revisions()
	for _, found := range list(m.T, m.namespace, kinds[1]) {
		var vm v1.VirtualMachine
		read(m.T, found, &vm)
		pins := pinsOf(&vm)
		for key, value := range m.admitted[vm.UID] {
			if fmt.Sprint(pins[key]) != fmt.Sprint(value) {
				m.Fatalf("VM '%s' was admitted with %s '%v' and has '%v'", vm.Name, key, value, pins[key])
			}
		}
		m.admitted[vm.UID] = pins
		m.present(there, "VM "+vm.Name, pins)
		if ref := vm.Status.InstancetypeRef; ref != nil && ref.ControllerRevisionRef != nil {
			m.present(there, "the status of VM "+vm.Name, map[string]any{"instancetype": ref.ControllerRevisionRef.Name})
		}
	}
	for _, found := range list(m.T, m.namespace, kinds[2]) {
		var vmi v1.VirtualMachineInstance
		read(m.T, found, &vmi)
		m.present(there, "guest "+vmi.Name, pinsOf(&vmi))
		m.unmoved(&vmi)
	}
}

// unmoved compares a VMI with the first one of its VM: unless pins or labels changed, a restart gives the same VMI, whatever became
// of instancetype, presets and configuration.
func (m *model) unmoved(vmi *v1.VirtualMachineInstance) {
	m.Helper()
	key := fmt.Sprint(vmi.OwnerReferences[0].UID, vmi.Annotations[v1alpha1.AnnotationPins], vmi.Labels)
	vmi.Spec.Hostname = ""
	spec := string(encode(m.T, vmi.Spec))
	if was := m.built[key]; was != "" && was != spec {
		m.Fatalf("guest '%s' was %s and is %s with the same pins %s", vmi.Name, was, spec, vmi.Annotations[v1alpha1.AnnotationPins])
	}
	m.built[key] = spec
}

func (m *model) cluster() config.Cluster {
	cluster := config.Default()
	cluster.Defaults.CPUModel = m.cpuModel
	return cluster
}

// present fails when a pin has no revision.
func (m *model) present(there map[string]*appsv1.ControllerRevision, user string, pins map[string]any) {
	m.Helper()
	for key, value := range pins {
		for _, name := range names(value) {
			if name != "" && name != v1alpha1.PinNone && there[name] == nil {
				m.Fatalf("%s lacks the revision '%s' of its %s", user, name, key)
			}
		}
	}
}

// revisions reads all of them, each of which must hold what it always held.
func (m *model) revisions() map[string]*appsv1.ControllerRevision {
	m.Helper()
	there := map[string]*appsv1.ControllerRevision{}
	for _, found := range list(m.T, m.namespace, kinds[0]) {
		var r appsv1.ControllerRevision
		read(m.T, found, &r)
		m.must(revision.Verify(&r))
		if was := m.held[r.Name]; was != "" && was != string(r.Data.Raw) {
			m.Fatalf("revision '%s' held %s and holds %s", r.Name, was, r.Data.Raw)
		}
		m.held[r.Name] = string(r.Data.Raw)
		there[r.Name] = &r
	}
	return there
}

// pinsOf are the pins of an object by key, whatever keys there are.
func pinsOf(object client.Object) map[string]any {
	var pins map[string]any
	if text := object.GetAnnotations()[v1alpha1.AnnotationPins]; text != "" {
		if err := json.Unmarshal([]byte(text), &pins); err != nil {
			panic(err) // Kiln wrote it
		}
	}
	return pins
}

// names returns the names in one pin, which is a name or a list of names.
func names(value any) (all []string) {
	if list, several := value.([]any); several {
		for _, one := range list {
			all = append(all, fmt.Sprint(one))
		}
		return all
	}
	return []string{fmt.Sprint(value)}
}
