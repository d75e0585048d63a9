package lifecycle

import (
	"context"
	"sync"
	"time"

	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A VM may name an instancetype, a preference or an image of a volume before it is created. The creation reconciles the VM. The VM is also
// reconciled at an interval (state.setFailure), because a cluster may not serve all kinds that would have to be watched.

// unpinnedVMs are the VMs that cannot be pinned yet. They are few, while there may be tens of thousands of objects of the watched kinds: without this index,
// the event of each of those objects would list all VMs.
type unpinnedVMs struct {
	sync.Mutex
	vms map[types.NamespacedName]*v1.VirtualMachine
}

func (u *unpinnedVMs) add(vm *v1.VirtualMachine) {
	u.Lock()
	defer u.Unlock()
	if u.vms == nil {
		u.vms = map[types.NamespacedName]*v1.VirtualMachine{}
	}
	u.vms[client.ObjectKeyFromObject(vm)] = vm
}

func (u *unpinnedVMs) remove(key types.NamespacedName) {
	u.Lock()
	defer u.Unlock()
	delete(u.vms, key)
}

// oldest returns how many VMs cannot be pinned, and when the oldest of them was created.
func (u *unpinnedVMs) oldest() (n int, created time.Time) {
	u.Lock()
	defer u.Unlock()
	for _, vm := range u.vms {
		if created.IsZero() || vm.CreationTimestamp.Time.Before(created) {
			created = vm.CreationTimestamp.Time
		}
	}
	return len(u.vms), created
}

// requestsWaitingFor returns the VMs that may wait for an object. It is the map function of the watches.
func (u *unpinnedVMs) requestsWaitingFor(_ context.Context, object client.Object) (found []ctrl.Request) {
	u.Lock()
	defer u.Unlock()
	for key, vm := range u.vms {
		if mayWaitFor(vm, object.GetName()) {
			found = append(found, ctrl.Request{NamespacedName: key})
		}
	}
	return found
}

// mayWaitFor reports whether a VM may wait for an object of this name. A VM that infers its instancetype or preference may wait for any object: where the
// inference leads is only known when every object on the way exists.
func mayWaitFor(vm *v1.VirtualMachine, name string) bool {
	pins := pin.Read(vm)
	if m := vm.Spec.Instancetype; m != nil && pins.Instancetype == "" && (m.InferFromVolume != "" || m.Name == name || m.RevisionName == name) {
		return true
	}
	m := vm.Spec.Preference
	return m != nil && pins.Preference == "" && (m.InferFromVolume != "" || m.Name == name || m.RevisionName == name)
}

// watchPinSources makes a controller reconcile unpinned VMs when what they may wait for changes. Kinds that the cluster does not serve at the start are not
// watched. Sources of volumes are only watched by their metadata: an inference reads labels, and reads references from the API server.
func (c *Controller) watchPinSources(b *builder.Builder, mapper meta.RESTMapper) error {
	arrived := handler.EnqueueRequestsFromMapFunc(c.unpinned.requestsWaitingFor)
	for _, kind := range instancetype.CatalogKinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
		b.Watches(object, arrived)
	}
	b.Watches(&appsv1.ControllerRevision{}, arrived)
	sources, err := ServedKinds(mapper, resolve.SourceKinds()...)
	if err != nil {
		return err
	}
	for _, kind := range sources {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		changed := predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.GenerationChangedPredicate{})
		b.WatchesMetadata(object, arrived, builder.WithPredicates(changed))
	}
	return nil
}

// ServedKinds returns the given kinds that the cluster serves.
func ServedKinds(mapper meta.RESTMapper, kinds ...schema.GroupVersionKind) (served []schema.GroupVersionKind, err error) {
	for _, kind := range kinds {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
			served = append(served, kind)
		} else if !meta.IsNoMatchError(err) {
			return nil, err
		}
	}
	return served, nil
}
