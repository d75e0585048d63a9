package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestUsersOf: an object is used by name, by a revision, and by what a VMI says of its sources. What is forged proves no revision.
func TestUsersOf(t *testing.T) {
	inferred, forged := draft(t, "inferred", "1Gi").Object(), draft(t, "forged", "1Gi").Object()
	forged.Data.Raw = draft(t, "victim", "1Gi").Data
	vm := func(name string, change func(*v1.VirtualMachine)) *v1.VirtualMachine {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"}}
		change(vm)
		return vm
	}
	pinned := func(revision *appsv1.ControllerRevision) map[string]string {
		return map[string]string{v1alpha1.AnnotationPins: `{"instancetype":"` + revision.Name + `"}`}
	}
	c := server(t, inferred, forged,
		vm("both", func(vm *v1.VirtualMachine) {
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
			vm.Spec.Preference = &v1.PreferenceMatcher{Name: "linux", Kind: "virtualmachinepreference"}
		}),
		vm("own", func(vm *v1.VirtualMachine) {
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small", Kind: "VirtualMachineInstancetypes"}
		}),
		vm("infers", func(vm *v1.VirtualMachine) {
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: "disk"}
			vm.Annotations = pinned(inferred)
		}),
		vm("lies", func(vm *v1.VirtualMachine) {
			vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "x", Kind: "Secret"}
			vm.Annotations = pinned(forged)
		}),
		vm("none", func(*v1.VirtualMachine) {}),
		&v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "team", Annotations: map[string]string{
			v1.ClusterInstancetypeAnnotation: "small", v1.PreferenceAnnotation: "linux"}}},
		&v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "restored", Namespace: "team", Annotations: pinned(inferred)}},
	)
	got, err := UsersOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Object]Users{
		{Kind: "VirtualMachineClusterInstancetype", Name: "small"}:                   {VMs: []string{"team/both"}, VMIs: []string{"team/bare"}},
		{Kind: "VirtualMachinePreference", Namespace: "team", Name: "linux"}:         {VMs: []string{"team/both"}, VMIs: []string{"team/bare"}},
		{Kind: "VirtualMachineInstancetype", Namespace: "team", Name: "small"}:       {VMs: []string{"team/own"}},
		{Kind: "VirtualMachineClusterInstancetype", Namespace: "", Name: "inferred"}: {VMs: []string{"team/infers"}, VMIs: []string{"team/restored"}},
	}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if (Users{}).None() != true || got[Object{Kind: "VirtualMachineClusterInstancetype", Name: "small"}].None() {
		t.Error("None is wrong")
	}
}
