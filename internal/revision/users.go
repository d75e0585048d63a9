package revision

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object identifies an instancetype or preference. The namespace of cluster-scoped kinds is empty.
type Object struct{ Kind, Namespace, Name string }

// Users are the VMs and VMIs that refer to an object, as sorted 'NAMESPACE/NAME'.
type Users struct{ VMs, VMIs []string }

// None reports whether no VM and no VMI refers to the object.
func (u Users) None() bool { return len(u.VMs)+len(u.VMIs) == 0 }

// UsersOf returns the users of each instancetype and preference, in all namespaces. VMs refer to them by name or by a revision, VMIs by KubeVirt's annotations
// or by a revision. A VM with inferFromVolume refers to them only by its pin. A forged annotation can only make an object count as used.
func UsersOf(ctx context.Context, reader client.Reader) (map[Object]Users, error) {
	found := &usedRevisions{names: map[client.ObjectKey]*revisionUsers{}, unreadable: map[string]bool{}}
	direct := objectUsers{vms: map[Object]map[string]bool{}, vmis: map[Object]map[string]bool{}}
	err := forEachUser(ctx, reader, func(vm *v1.VirtualMachine) {
		found.addVM(vm)
		direct.addVM(vm)
	}, func(vmi *v1.VirtualMachineInstance) {
		found.addPins(vmi)
		direct.addObjectsNamedByVMI(vmi)
	}, pageSize)
	if err != nil {
		return nil, err
	}
	err = forEachPage(ctx, reader, func(page *appsv1.ControllerRevisionList) {
		for i := range page.Items {
			direct.addRevision(&page.Items[i], found.names[client.ObjectKeyFromObject(&page.Items[i])])
		}
	}, client.HasLabels{Selector}, pageSize)
	return direct.sortedUsers(), err
}

// objectUsers are the users of each object. They are sets, because a VM may refer to an object by its name and by its pin.
type objectUsers struct{ vms, vmis map[Object]map[string]bool }

func addUser(to map[Object]map[string]bool, object Object, namespace, user string) {
	if object.Kind == "" || object.Name == "" {
		return
	}
	if clusterScoped(object.Kind) {
		object.Namespace = ""
	}
	if to[object] == nil {
		to[object] = map[string]bool{}
	}
	to[object][namespace+"/"+user] = true
}

func (n objectUsers) addVM(vm *v1.VirtualMachine) {
	for _, object := range objectsNamedBy(vm) {
		addUser(n.vms, Object{object.Kind, object.Namespace, object.Name}, object.Namespace, object.VM)
	}
}

// addObjectsNamedByVMI adds a VMI to the users of the objects that its annotations name. KubeVirt's controller and stage 1 write these annotations.
func (n objectUsers) addObjectsNamedByVMI(vmi *v1.VirtualMachineInstance) {
	for key, kind := range map[string]string{
		v1.InstancetypeAnnotation:        instancetype.Kinds.Namespaced,
		v1.ClusterInstancetypeAnnotation: instancetype.Kinds.Cluster,
		v1.PreferenceAnnotation:          instancetype.PreferenceKinds.Namespaced,
		v1.ClusterPreferenceAnnotation:   instancetype.PreferenceKinds.Cluster,
	} {
		addUser(n.vmis, Object{kind, vmi.Namespace, vmi.Annotations[key]}, vmi.Namespace, vmi.Name)
	}
}

// addRevision adds the users of a revision to the object that it was taken from. A revision that cannot be trusted is ignored.
func (n objectUsers) addRevision(r *appsv1.ControllerRevision, by *revisionUsers) {
	var object unstructured.Unstructured
	if by == nil || Verify(r) != nil || json.Unmarshal(r.Data.Raw, &object.Object) != nil {
		return
	}
	key := Object{object.GetKind(), r.Namespace, object.GetName()}
	for _, vm := range by.vms {
		addUser(n.vms, key, r.Namespace, vm)
	}
	for _, vmi := range by.vmis {
		addUser(n.vmis, key, r.Namespace, vmi)
	}
}

func (n objectUsers) sortedUsers() map[Object]Users {
	all := map[Object]Users{}
	for object, vms := range n.vms {
		all[object] = Users{VMs: slices.Sorted(maps.Keys(vms))}
	}
	for object, vmis := range n.vmis {
		all[object] = Users{VMs: all[object].VMs, VMIs: slices.Sorted(maps.Keys(vmis))}
	}
	return all
}
