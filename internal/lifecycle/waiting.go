package lifecycle

import (
	"context"
	"sync"

	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A VM may name a size that comes later, or a volume whose image does. It starts when that is there: the controller hears of it, and
// looks again by itself now and then, since not every cluster serves the kinds that it would have to watch.

// waiting are the VMs that cannot be pinned yet. Objects of the watched kinds come by the ten thousand; VMs that wait for one are few.
type waiting struct {
	sync.Mutex
	vms map[types.NamespacedName]*v1.VirtualMachine
}

// note keeps a VM in mind, or forgets it.
func (w *waiting) note(key types.NamespacedName, vm *v1.VirtualMachine) {
	w.Lock()
	defer w.Unlock()
	if vm == nil {
		delete(w.vms, key)
		return
	}
	if w.vms == nil {
		w.vms = map[types.NamespacedName]*v1.VirtualMachine{}
	}
	w.vms[key] = vm
}

// requests are the VMs for which an object may be what they wait for.
func (w *waiting) requests(_ context.Context, object client.Object) (found []ctrl.Request) {
	w.Lock()
	defer w.Unlock()
	for key, vm := range w.vms {
		if awaits(vm, object.GetName()) {
			found = append(found, ctrl.Request{NamespacedName: key})
		}
	}
	return found
}

// awaits tells whether a VM may wait for an object of this name. What an inference leads to is known only when it is there.
func awaits(vm *v1.VirtualMachine, name string) bool {
	pins := pin.Read(vm)
	if m := vm.Spec.Instancetype; m != nil && pins.Instancetype == "" && (m.InferFromVolume != "" || m.Name == name || m.RevisionName == name) {
		return true
	}
	m := vm.Spec.Preference
	return m != nil && pins.Preference == "" && (m.InferFromVolume != "" || m.Name == name || m.RevisionName == name)
}

// watch has a controller hear of everything that VMs wait for. Kinds that the cluster does not serve now are not watched.
func (c *Controller) watch(b *builder.Builder, mapper meta.RESTMapper) error {
	arrived := handler.EnqueueRequestsFromMapFunc(c.waiting.requests)
	for _, kind := range instancetype.CatalogKinds() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(kind))
		b.Watches(object, arrived)
	}
	b.Watches(&appsv1.ControllerRevision{}, arrived)
	for _, kind := range resolve.SourceKinds() {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return err
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		changed := predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.GenerationChangedPredicate{})
		b.WatchesMetadata(object, arrived, builder.WithPredicates(changed))
	}
	return nil
}
