package model

import (
	"maps"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func conflict(err error) bool { return apierrors.IsConflict(err) }

// end lets everything come to rest: then there are the revisions that somebody refers to, and no others; and none when the last
// VM has gone.
func (m *model) end() {
	m.Helper()
	m.store()
	m.kiln[0] = m.newProcess()
	m.note("rest")
	m.rest()
	wanted := map[string]bool{}
	for _, kind := range kinds[1:3] {
		for _, user := range list(m.T, m.namespace, kind) {
			for _, value := range pinsOf(user) {
				for _, name := range names(value) {
					wanted[name] = true
				}
			}
		}
	}
	delete(wanted, v1alpha1.PinNone)
	if got, want := slices.Sorted(maps.Keys(m.revisions())), slices.Sorted(maps.Keys(wanted)); !slices.Equal(got, want) {
		m.Fatalf("at rest there are the revisions %v, want those that are referred to, %v", got, want)
	}
	m.note("removal")
	for range machines {
		m.remove()
		m.rest()
	}
	if left := m.revisions(); len(left) != 0 {
		m.Fatalf("%d revisions are left although nothing refers to any", len(left))
	}
}

// rest reconciles everything with caches that are current, and collects in both phases.
func (m *model) rest() {
	m.Helper()
	p := m.kiln[0]
	for range 4 {
		p.admitting.refresh(m.T, kinds...)
		for _, name := range machines {
			if _, err := p.controller.Reconcile(m.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: m.namespace, Name: name}}); err != nil {
				m.note("  %s: %v", name, err)
			}
		}
	}
	m.orphans()
	for range 2 {
		p.collecting.refresh(m.T, kinds...)
		m.must(p.collector.Collect(m.Context()))
		m.check()
		m.ahead += revision.MinGrace + time.Second
	}
}

// orphans does what the garbage collector does in its own time: VMIs go after their VMs.
func (m *model) orphans() {
	m.Helper()
	there := map[types.UID]bool{}
	for _, vm := range list(m.T, m.namespace, kinds[1]) {
		there[vm.GetUID()] = true
	}
	for _, found := range list(m.T, m.namespace, kinds[2]) {
		var vmi v1.VirtualMachineInstance
		read(m.T, found, &vmi)
		if len(vmi.OwnerReferences) == 0 || there[vmi.OwnerReferences[0].UID] {
			continue
		}
		// The garbage collector itself works at the same VMIs, so that one may change, or go, in between.
		m.must(client.IgnoreNotFound(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			err := server.Get(m.Context(), client.ObjectKeyFromObject(&vmi), &vmi)
			if err == nil {
				vmi.Finalizers = nil
				err = server.Update(m.Context(), &vmi)
			}
			return err
		})))
		m.must(client.IgnoreNotFound(server.Delete(m.Context(), &vmi)))
	}
}
