package lifecycle

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// awaitedVolumes are the names of DataVolumes and claims for which VMs wait. They are lost with the process, which then reconciles each VM once. The zero value
// is ready to use.
type awaitedVolumes struct {
	sync.Mutex
	byVM map[types.NamespacedName][]string
	// vms are the VMs by what they wait for: an event of a claim must not cost more where many VMs wait.
	vms map[types.NamespacedName]map[types.NamespacedName]bool
}

// set replaces the names for which a VM waits. Without names it forgets the VM.
func (a *awaitedVolumes) set(vm types.NamespacedName, names []string) {
	a.Lock()
	defer a.Unlock()
	for _, name := range a.byVM[vm] {
		of := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		if delete(a.vms[of], vm); len(a.vms[of]) == 0 {
			delete(a.vms, of)
		}
	}
	if len(names) == 0 {
		delete(a.byVM, vm)
		return
	}
	if a.byVM == nil {
		a.byVM, a.vms = map[types.NamespacedName][]string{}, map[types.NamespacedName]map[types.NamespacedName]bool{}
	}
	a.byVM[vm] = names
	for _, name := range names {
		of := types.NamespacedName{Namespace: vm.Namespace, Name: name}
		if a.vms[of] == nil {
			a.vms[of] = map[types.NamespacedName]bool{}
		}
		a.vms[of][vm] = true
	}
}

// requestsWaitingFor returns the VMs that wait for a DataVolume or a claim. It is the map function of the watches.
func (a *awaitedVolumes) requestsWaitingFor(_ context.Context, object client.Object) (found []ctrl.Request) {
	a.Lock()
	defer a.Unlock()
	for vm := range a.vms[client.ObjectKeyFromObject(object)] {
		found = append(found, ctrl.Request{NamespacedName: vm})
	}
	return found
}

// watchVolumes makes a controller reconcile VMs when their DataVolumes change, or a claim for which they wait. DataVolumes are watched if the cluster serves
// them at the start.
func watchVolumes(c *Controller, b *builder.Builder, mgr ctrl.Manager) error {
	waiting := handler.EnqueueRequestsFromMapFunc(c.awaitedVolumes.requestsWaitingFor)
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	b.WatchesMetadata(claim, waiting, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}))
	served, err := ServedKinds(mgr.GetRESTMapper(), cdi.SchemeGroupVersion.WithKind("DataVolume"))
	if err != nil || len(served) == 0 {
		return err
	}
	c.watchesDataVolumes = true
	toVM := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1.VirtualMachine{}, handler.OnlyControllerOwner())
	b.Watches(&cdi.DataVolume{}, toVM, builder.WithPredicates(fillingChanged))
	b.Watches(&cdi.DataVolume{}, waiting, builder.WithPredicates(fillingChanged))
	return nil
}

// fillingChanged ignores changes of a DataVolume that the cache does not have, such as the progress of an import.
var fillingChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, _ := e.ObjectOld.(*cdi.DataVolume)
	is, _ := e.ObjectNew.(*cdi.DataVolume)
	return was == nil || is == nil || !equality.Semantic.DeepEqual(was.Status, is.Status) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}}
