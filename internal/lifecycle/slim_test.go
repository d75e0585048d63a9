package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/objects"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// TestOnlyPatches: a controller whose cache has no templates starts a VM with its template, and does not remove the template.
func TestOnlyPatches(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{"owner.example.com/note": "kept"}
	vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"owner.example.com/note": "inherited"}
	vm.Spec.Template.Spec.Hostname = "shop"
	vm.Spec.DataVolumeTemplates = []v1.DataVolumeTemplateSpec{template("root", cdi.DataVolumeSource{Blank: &cdi.DataVolumeBlankImage{}})}
	c := newCluster(t, vm)
	before := c.vm().Spec
	c.reconcileRepeatedly()
	c.setPhase(v1.Running)
	c.reconcileRepeatedly()
	cached, err := objects.GetOrNil(t.Context(), c.controller.Client, key, &v1.VirtualMachine{})
	if err != nil || cached.Spec.Template.Spec.Hostname != "" || cached.Spec.DataVolumeTemplates[0].Spec.Source != nil {
		t.Fatalf("the cache has the full VM: %+v, %v", cached.Spec, err)
	}
	after := c.vm()
	if diff := cmp.Diff(before, after.Spec); diff != "" || after.Annotations["owner.example.com/note"] != "kept" {
		t.Errorf("annotations %v, spec (-before +after):\n%s", after.Annotations, diff)
	}
	if guest := c.vmi(); guest.Spec.Hostname != "shop" || guest.Annotations["owner.example.com/note"] != "inherited" || guest.Status.Phase != v1.Running {
		t.Errorf("the guest has hostname '%s', annotations %v, phase %s", guest.Spec.Hostname, guest.Annotations, guest.Status.Phase)
	}
}

// TestStaleVM: a VM is not started by a decision about an outdated version in the cache.
func TestStaleVM(t *testing.T) {
	c := newCluster(t, newVM(v1.RunStrategyAlways))
	c.reconcileRepeatedly()
	stale, err := objects.GetOrNil(t.Context(), c.controller.Client, key, &v1.VirtualMachine{})
	if err != nil {
		t.Fatal(err)
	}
	c.setRunStrategy(v1.RunStrategyHalted)
	s := newState(stale, nil, c.now)
	if c.controller.createVMI(t.Context(), s); s.vmi != nil || s.retryable == nil {
		t.Errorf("started %v, error %v", s.vmi, s.retryable)
	}
}
