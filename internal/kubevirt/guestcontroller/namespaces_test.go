package guestcontroller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/enforcement"
	"github.com/kilnvm/kiln/internal/pin"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestNamespacesThatAreLeftAlone: in a namespace that is not judged, neither VM nor hardware is written, and a VM keeps what it was pinned to. It is pinned,
// and its hardware recorded, when the namespace is judged.
func TestNamespacesThatAreLeftAlone(t *testing.T) {
	for _, test := range []struct{ selection, out, in string }{
		{enforcement.OptOut, "disabled", ""}, {enforcement.OptOut, "disabled", "warn"}, {enforcement.OptIn, "", "enabled"}, {enforcement.OptIn, "other", "warn"},
	} {
		labelled := func(label string) map[string]string {
			if label == "" {
				return nil
			}
			return map[string]string{v1alpha1.LabelAdmission: label}
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace, Labels: labelled(test.out)}}
		vm := newVM(v1.RunStrategyAlways)
		vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
		c := newCluster(t, vm, namespace, smallInstancetype())
		selected := &enforcement.Namespaces{Selection: test.selection, Kiln: "kiln-system", KubeVirt: "kubevirt"}
		c.vms.Namespaces, c.hardware.namespaces = selected, selected
		if err := c.Create(t.Context(), kubeVirtVMI(t, vm, "1", 1, v1alpha1.FrontendNew)); err != nil {
			t.Fatal(err)
		}
		before, created := c.vm(), c.created
		c.reconcileVM()
		if hardware := c.reconciledHardware(); hardware != nil || c.created != created || !cmp.Equal(before, c.vm()) {
			t.Errorf("%s, '%s': %d objects are made, hardware %v, the VM is %s", test.selection, test.out, c.created-created, hardware, cmp.Diff(before, c.vm()))
		}
		namespace.Labels = labelled(test.in)
		if err := c.Update(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		c.reconcileVM()
		pinned := c.vm()
		if hardware := c.reconciledHardware(); hardware == nil || pin.Read(pinned).Instancetype == "" {
			t.Errorf("%s, '%s': hardware %v, pins %+v", test.selection, test.in, hardware, pin.Read(pinned))
		}
		namespace.Labels = labelled(test.out)
		if err := c.Update(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		if c.reconcileVM(); !cmp.Equal(pinned, c.vm()) {
			t.Errorf("%s, '%s': a pinned VM is changed: %s", test.selection, test.out, cmp.Diff(pinned, c.vm()))
		}
	}
}
