package revision

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/tidwall/gjson"
	appsv1 "k8s.io/api/apps/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReferencedBy returns the revisions that a VM refers to by pins, by revisionName and by its status, in any order.
func ReferencedBy(vm *v1.VirtualMachine) (all []client.ObjectKey) {
	found := &usedRevisions{names: map[client.ObjectKey]*revisionUsers{}, unreadable: map[string]bool{}}
	found.addVM(vm)
	for key := range found.names {
		all = append(all, key)
	}
	return all
}

// NamedIn reports whether the spec of a VM names an instancetype or preference.
func (o Object) NamedIn(vm *v1.VirtualMachine) bool {
	for _, named := range objectsNamedBy(vm) {
		if named.Kind == o.Kind && named.Name == o.Name && (clusterScoped(o.Kind) || named.Namespace == o.Namespace) {
			return true
		}
	}
	return false
}

// IsPinned reports whether a VM has a revision of its instancetype, or of its preference if the kind is a preference's.
func IsPinned(vm *v1.VirtualMachine, kind string) bool {
	pins := pin.Read(vm)
	switch kind {
	case instancetype.Kinds.Namespaced, instancetype.Kinds.Cluster:
		m := vm.Spec.Instancetype
		return m != nil && !hasNoRevision(vm.Status.InstancetypeRef, pins.Instancetype, m.RevisionName)
	case instancetype.PreferenceKinds.Namespaced, instancetype.PreferenceKinds.Cluster:
		m := vm.Spec.Preference
		return m != nil && !hasNoRevision(vm.Status.PreferenceRef, pins.Preference, m.RevisionName)
	}
	return false
}

// TakenFrom returns the revisions of an object: in its namespace, or in all namespaces if the kind has none. The reader must be a cache. Revisions are not
// verified: a forged one only makes an object count as used.
func TakenFrom(ctx context.Context, cached client.Reader, object Object) (map[client.ObjectKey]bool, error) {
	var list appsv1.ControllerRevisionList
	if err := cached.List(ctx, &list, client.InNamespace(object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the revisions of %s '%s': %w", object.Kind, object.Name, err)
	}
	taken := map[client.ObjectKey]bool{}
	for i := range list.Items {
		if of := gjson.GetManyBytes(list.Items[i].Data.Raw, "kind", "metadata.name"); of[0].Str == object.Kind && of[1].Str == object.Name {
			taken[client.ObjectKeyFromObject(&list.Items[i])] = true
		}
	}
	return taken, nil
}
