package command

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
)

// TestCachedNamespaces: a cache keeps what selectors and policies read of a namespace, and not the copies of the object in its metadata.
func TestCachedNamespaces(t *testing.T) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "a"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{"kept": "yes", corev1.LastAppliedConfigAnnotation: "{}"},
	}}
	got, err := slimNamespace(object)
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"kept": "yes"},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "shop"} // informers pass it too
	if got, err := slimNamespace(gone); err != nil || got != any(gone) {
		t.Errorf("%v, %v; want what was given", got, err)
	}
}

// TestSlim: what is left of VM and VMI is what the controller reads. Other annotations are a tenant's, of any size.
func TestSlim(t *testing.T) {
	meta := func(more map[string]string) metav1.ObjectMeta {
		annotations := map[string]string{"kilnvm.io/pins": "{}", "virtualmachineinstancepresets.admission.kubevirt.io/exclude": "true"}
		maps.Copy(annotations, more)
		return metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}, Annotations: annotations}
	}
	foreign := map[string]string{"notkubevirt.io/a": "large", "kilnvm.io.example.com/a": "large", "plain": "large", corev1.LastAppliedConfigAnnotation: "{}"}
	always := v1.RunStrategyAlways
	spec := func() v1.VirtualMachineSpec {
		return v1.VirtualMachineSpec{RunStrategy: &always, Instancetype: &v1.InstancetypeMatcher{Name: "small"}, Preference: &v1.PreferenceMatcher{Name: "linux"}}
	}
	status := v1.VirtualMachineInstanceStatus{Phase: v1.Running, NodeName: "node",
		Conditions:                []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceReady}},
		PhaseTransitionTimestamps: []v1.VirtualMachineInstancePhaseTransitionTimestamp{{Phase: v1.Running}}}
	vm := &v1.VirtualMachine{ObjectMeta: meta(foreign), Spec: spec(), Status: v1.VirtualMachineStatus{Ready: true}}
	vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: meta(foreign), Spec: v1.VirtualMachineInstanceSpec{Hostname: "shop"}}
	vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{{}}
	wantVM := &v1.VirtualMachine{ObjectMeta: meta(nil), Spec: spec(), Status: v1.VirtualMachineStatus{Ready: true}}
	wantVM.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: meta(nil)}
	vmi := &v1.VirtualMachineInstance{ObjectMeta: meta(foreign), Spec: v1.VirtualMachineInstanceSpec{Hostname: "shop"}, Status: status}
	vmi.Status.Interfaces = []v1.VirtualMachineInstanceNetworkInterface{{Name: "default"}}
	labelled := &metav1.PartialObjectMetadata{ObjectMeta: meta(foreign)}
	for _, test := range []struct{ from, want any }{
		{vm, wantVM}, {vmi, &v1.VirtualMachineInstance{ObjectMeta: meta(nil), Status: status}},
		{labelled, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}},
		{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(foreign), ManagedFields: vm.ManagedFields}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: foreign}}},
	} {
		got, err := Slim(test.from)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%T: %v (-want +got):\n%s", test.from, err, diff)
		}
	}
}
