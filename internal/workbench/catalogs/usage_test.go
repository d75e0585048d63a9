package catalogs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/internal/workbench"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// sized is a cluster instancetype with an amount of memory.
func sized(name, memory string) *v1beta1.VirtualMachineClusterInstancetype {
	o := &v1beta1.VirtualMachineClusterInstancetype{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.APIVersion, o.Kind = v1beta1.SchemeGroupVersion.String(), "VirtualMachineClusterInstancetype"
	o.Spec.CPU.Guest, o.Spec.Memory.Guest = 1, resource.MustParse(memory)
	return o
}

// taken is the revision of an object, as a namespace holds it.
func taken(t *testing.T, namespace string, object client.Object) revision.Draft {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	delete(raw, "status")
	draft, err := revision.NewDraft(namespace, &unstructured.Unstructured{Object: raw})
	if err != nil {
		t.Fatal(err)
	}
	return draft
}

func TestCatalogUsages(t *testing.T) {
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	now, before, gone := taken(t, "shop", sized("small", "2Gi")), taken(t, "shop", sized("small", "1Gi")), taken(t, "yard", sized("old", "1Gi"))
	own := &v1beta1.VirtualMachinePreference{ObjectMeta: metav1.ObjectMeta{Name: "linux", Namespace: "yard"}}
	own.Labels = map[string]string{v1alpha1.LabelLifecycle: "obsolete"}
	vm := func(namespace, name, pin string, spec v1.VirtualMachineSpec) *v1.VirtualMachine {
		object := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
		if pin != "" {
			object.Annotations = map[string]string{v1alpha1.AnnotationPins: `{"instancetype":"` + pin + `"}`}
		}
		return object
	}
	small := v1.VirtualMachineSpec{Instancetype: &v1.InstancetypeMatcher{Name: "small"}}
	cluster := fake.NewClientBuilder().WithScheme(known).WithObjects(
		sized("small", "2Gi"), sized("unused", "1Gi"), own, now.Object(), before.Object(), gone.Object(),
		vm("shop", "a", now.Name, small), vm("shop", "b", before.Name, small), vm("shop", "c", "", small),
		vm("yard", "d", gone.Name, v1.VirtualMachineSpec{Instancetype: &v1.InstancetypeMatcher{Name: "old", Kind: "virtualmachineclusterinstancetypes"}}),
		vm("yard", "e", "", v1.VirtualMachineSpec{Instancetype: &v1.InstancetypeMatcher{Name: "never"},
			Preference: &v1.PreferenceMatcher{Name: "linux", Kind: "VirtualMachinePreference"}}),
	).Build()
	const i, p = "VirtualMachineClusterInstancetype ", "VirtualMachinePreference "
	for namespace, want := range map[string][]string{
		"": {
			i + "never: gone, 1 VMs, 0 current, 0 outdated, without [yard/e]; it is gone already, and 1 VM cannot start",
			i + "old: gone, 1 VMs, 0 current, 1 outdated, without []; it is gone already",
			i + "small: active, 3 VMs, 1 current, 1 outdated, without [shop/c]; " +
				"2 VMs keep their revision, and start and restart as before; 1 VM without a revision cannot start",
			i + "unused: active, 0 VMs, 0 current, 0 outdated, without []; no VM uses it",
			p + "yard/linux: obsolete, 1 VMs, 0 current, 0 outdated, without [yard/e]; 1 VM without a revision cannot start",
		},
		"shop": {
			i + "small: active, 3 VMs, 1 current, 1 outdated, without [shop/c]; " +
				"2 VMs keep their revision, and start and restart as before; 1 VM without a revision cannot start",
			i + "unused: active, 0 VMs, 0 current, 0 outdated, without []; no VM uses it",
		},
	} {
		usages, warnings, err := Usages(t.Context(), new(workbench.Bench), cluster, namespace, time.Now())
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		var got []string
		for _, u := range usages {
			got = append(got, fmt.Sprintf("%s: %s, %d VMs, %d current, %d outdated, without %v; %s", u.Key, u.State, u.VMs,
				u.Current, u.Outdated, u.Unpinned, u.Removal))
			if u.Edit == "" {
				t.Errorf("%s: nothing is said of an edit", u.Key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("namespace '%s' (-want +got):\n%s", namespace, diff)
		}
	}
}

// TestCatalogUsagesOfInferredObjects: what a VM will infer is not known before it is pinned; the answer says so, and does not take it for unused.
func TestCatalogUsagesOfInferredObjects(t *testing.T) {
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	revision := taken(t, "shop", sized("small", "2Gi"))
	vm := func(name, pins string, status *v1.InstancetypeStatusRef) *v1.VirtualMachine {
		return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{v1alpha1.AnnotationPins: pins}},
			Spec:   v1.VirtualMachineSpec{Instancetype: &v1.InstancetypeMatcher{InferFromVolume: "root"}},
			Status: v1.VirtualMachineStatus{InstancetypeRef: status}}
	}
	ofKubeVirt := &v1.InstancetypeStatusRef{ControllerRevisionRef: &v1.ControllerRevisionRef{Name: revision.Name}}
	preferring := vm("prefers", "{}", nil)
	preferring.Spec = v1.VirtualMachineSpec{Preference: &v1.PreferenceMatcher{InferFromVolume: "root"}}
	cluster := fake.NewClientBuilder().WithScheme(known).WithObjects(sized("small", "2Gi"), revision.Object(), preferring,
		vm("pinned", `{"instancetype":"`+revision.Name+`"}`, nil), vm("recorded", "{}", ofKubeVirt), vm("waits", `{"configuration":"x"}`, nil)).Build()
	usages, warnings, err := Usages(t.Context(), new(workbench.Bench), cluster, "", time.Now())
	if err != nil || len(usages) != 1 || usages[0].VMs != 2 {
		t.Errorf("want two VMs of 'small': %+v %v", usages, err)
	}
	want := []string{"VMs that infer their instancetype or preference from a volume and are not pinned yet are not counted: shop/prefers, shop/waits"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCatalogOfACluster: what a cluster holds is linted and compared as files are, without lines.
func TestCatalogOfACluster(t *testing.T) {
	known, err := crdschema.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	lying := sized("small", "2Gi")
	lying.Labels = map[string]string{"instancetype.kubevirt.io/cpu": "2", "instancetype.kubevirt.io/memory": "2Gi"}
	other := &v1beta1.VirtualMachinePreference{ObjectMeta: metav1.ObjectMeta{Name: "linux", Namespace: "yard"}}
	cluster := fake.NewClientBuilder().WithScheme(known).WithObjects(lying, other).Build()
	read, err := FromCluster(t.Context(), cluster, "shop")
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := Lint(t.Context(), new(workbench.Bench), read, time.Now())
	if err != nil || len(read.Objects) != 1 {
		t.Fatal(read.Objects, err)
	}
	for _, f := range found {
		if f.File != "" || f.Line != 0 || f.Object != "VirtualMachineClusterInstancetype small" {
			t.Errorf("got %+v", f)
		}
	}
	if len(found) != 2 || found[0].Rule != "label/value" && found[1].Rule != "label/value" {
		t.Errorf("got %+v", found)
	}
	lying.Spec.Memory.Guest = resource.MustParse("4Gi")
	after := fake.NewClientBuilder().WithScheme(known).WithObjects(lying).Build()
	next, err := FromCluster(t.Context(), after, "shop")
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := Compare(t.Context(), new(workbench.Bench), [2]Catalog{read, next}, time.Now())
	if err != nil || len(d.Changes) != 1 || d.Verdict != "needs restart" {
		t.Errorf("%v: %+v", err, d)
	}
}
