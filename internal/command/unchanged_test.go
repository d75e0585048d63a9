package command

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRelistsKeepWhatIsUnchanged: a list anew gives the objects that the informer has, but for those with another content.
func TestRelistsKeepWhatIsUnchanged(t *testing.T) {
	halted, always := v1.RunStrategyHalted, v1.RunStrategyAlways
	listed := func(version string, strategy *v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
		return &v1.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "1", ResourceVersion: version, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			Spec: v1.VirtualMachineSpec{RunStrategy: strategy, Template: &v1.VirtualMachineInstanceTemplateSpec{
				Spec: v1.VirtualMachineInstanceSpec{Hostname: "cart"},
			}},
		}
	}
	var stored client.Object
	u := unchanged{known: func(client.Object) client.Object { return stored }}
	transform := func(object client.Object) client.Object {
		t.Helper()
		got, err := u.transform(object)
		if err != nil {
			t.Fatal(err)
		}
		return got.(client.Object)
	}
	first := transform(listed("7", &halted))
	stored = first
	if again := transform(listed("7", &halted)); again != first {
		t.Error("an unchanged VM is kept twice")
	}
	// The second transform of one list must not write to an object that others read.
	first.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
	if transform(first); len(first.GetManagedFields()) != 1 {
		t.Error("the object of the informer was written to")
	}
	first.SetManagedFields(nil)
	for name, other := range map[string]*v1.VirtualMachine{
		"another resourceVersion": listed("8", &halted), "another content under the same resourceVersion, after a restore": listed("7", &always),
	} {
		got := transform(other).(*v1.VirtualMachine)
		if got != other || *got.Spec.RunStrategy != *other.Spec.RunStrategy || got.ManagedFields != nil {
			t.Errorf("%s: the cache keeps %+v", name, got)
		}
	}
}

// TestEmptyTemplatesAreOne: VMs whose templates have no metadata share one template in the cache, and no transform writes to it.
func TestEmptyTemplatesAreOne(t *testing.T) {
	u := unchanged{known: func(client.Object) client.Object { return nil }}
	for _, labels := range []map[string]string{nil, {"app": "shop"}} {
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.VirtualMachineInstanceSpec{Hostname: "cart"},
		}}}
		for range 2 {
			if _, err := u.transform(vm); err != nil {
				t.Fatal(err)
			}
		}
		if got := vm.Spec.Template; (got == emptyTemplate) != (labels == nil) || got.ObjectMeta.Labels["app"] != labels["app"] || got.Spec.Hostname != "" {
			t.Errorf("labels %v: %+v", labels, got)
		}
	}
	if emptyTemplate.Spec.Hostname != "" || emptyTemplate.ObjectMeta.Labels != nil {
		t.Errorf("the shared template was written to: %+v", emptyTemplate)
	}
}

// oneInformer is a cache with one informer for all kinds.
type oneInformer struct {
	cache.Cache
	toolscache.SharedIndexInformer
}

func (o oneInformer) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return o.SharedIndexInformer, nil
}

// TestObjectsOfInformersAreFound: by namespace and name, and by the name alone for kinds without a namespace.
func TestObjectsOfInformersAreFound(t *testing.T) {
	informer := oneInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1.VirtualMachine{}, 0, toolscache.Indexers{})}
	for _, namespace := range []string{"shop", ""} {
		stored := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"}}
		if err := informer.GetIndexer().Add(stored); err != nil {
			t.Fatal(err)
		}
		if got := in(informer)(stored.DeepCopy()); got != client.Object(stored) {
			t.Errorf("namespace '%s': found %v", namespace, got)
		}
		other := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
		if got := in(informer)(other); got != nil {
			t.Errorf("namespace '%s': found %v under another name", namespace, got)
		}
	}
}
