package command

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unchanged is the transform of a cache. A list that replaces another one would double the memory of the cache, because an informer drops its objects
// when the list is complete. So an object that is equal to the one of the informer is dropped at once, and the informer's own takes its place.
type unchanged struct {
	// known returns the object that the informer has under the namespace and name of another one, or nil.
	known func(client.Object) client.Object
}

// emptyTemplate stands for the templates of all VMs whose template has no metadata: the type is a kilobyte. A cache hands out deep copies.
var emptyTemplate = &v1.VirtualMachineInstanceTemplateSpec{}

// transform is Slim for a cache. An informer applies it twice to each object of a list. The second time the object may be one that others read
// already, and is not written to.
func (u *unchanged) transform(object any) (any, error) {
	of, ok := object.(client.Object)
	if !ok {
		return Slim(object)
	}
	old := u.known(of)
	if old == of {
		return object, nil
	}
	if vm, ok := object.(*v1.VirtualMachine); ok && vm.Spec.Template == emptyTemplate {
		return object, nil
	}
	slim, err := Slim(object)
	if err != nil {
		return nil, err
	}
	if vm, ok := slim.(*v1.VirtualMachine); ok && vm.Spec.Template != nil && equality.Semantic.DeepEqual(vm.Spec.Template, emptyTemplate) {
		vm.Spec.Template = emptyTemplate
	}
	// One resourceVersion may stand for two contents: etcd counts some versions again after a restore.
	if old != nil && old.GetResourceVersion() == of.GetResourceVersion() && equality.Semantic.DeepEqual(old, slim) {
		return old, nil
	}
	return slim, nil
}

// in returns a function for unchanged.known that looks into the informers of a cache.
func in(informers cache.Cache) func(client.Object) client.Object {
	return func(of client.Object) client.Object {
		informer, err := informers.GetInformer(context.Background(), of, cache.BlockUntilSynced(false))
		if err != nil {
			return nil
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil
		}
		found, exists, err := shared.GetIndexer().Get(of)
		if err != nil || !exists {
			return nil
		}
		object, _ := found.(client.Object)
		return object
	}
}
