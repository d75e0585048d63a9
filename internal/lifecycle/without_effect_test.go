package lifecycle

import (
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestFieldsWithoutEffect: condition FieldsWithoutEffect names what the runtime ignores of a VM when its guest is created, and follows each edit. It is there
// after the death of the process that created the VMI, too.
func TestFieldsWithoutEffect(t *testing.T) {
	const evicted = "evictionStrategy has no effect: a guest of a bare machine is neither drained nor migrated"
	vm := newVM(v1.RunStrategyAlways)
	vm.Spec.Template.Spec.EvictionStrategy = new(v1.EvictionStrategyLiveMigrate)
	c := newCluster(t, vm)
	cluster := config.Default()
	cluster.Limits.Runtime = config.RuntimeNode
	c.controller.Configuration = func() config.Cluster { return cluster }
	expect := func(why, want string) {
		t.Helper()
		c.reconcileRepeatedly()
		found := conditionsOfType(c.vm(), v1alpha1.ConditionFieldsWithoutEffect)
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%s: %+v", why, found)
		case want != "" && (len(found) != 1 || found[0].Message != want || found[0].Reason != v1alpha1.ReasonNoEffect || found[0].Status != corev1.ConditionTrue):
			t.Errorf("%s: got %+v, want '%s'", why, found, want)
		}
	}
	edit := func(change func(*v1.VirtualMachineInstanceSpec)) {
		t.Helper()
		vm := c.vm()
		vm.Generation++ // as the API server does
		change(&vm.Spec.Template.Spec)
		if err := c.Update(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
	}
	expect("a guest was created", evicted)
	c.setPhase(v1.Running)
	expect("nothing has changed", evicted)
	edit(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.EvictionStrategy = nil
		spec.Affinity, spec.SchedulerName, spec.Subdomain = &corev1.Affinity{}, "other", "sub"
		spec.Tolerations = []corev1.Toleration{{Key: "a"}}
	})
	expect("more than three", "affinity has no effect: launchers claim VMIs by nodeSelector alone; tolerations has no effect: launchers claim VMIs by "+
		"nodeSelector alone; schedulerName has no effect: launchers claim VMIs by nodeSelector alone; and 1 more: "+
		"'kubectl kiln validate --runtime node' lists them")
	edit(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Affinity, spec.SchedulerName, spec.Subdomain, spec.Tolerations = nil, "", "", nil
	})
	expect("none is left", "")
	edit(func(spec *v1.VirtualMachineInstanceSpec) { spec.EvictionStrategy = new(v1.EvictionStrategyLiveMigrate) })
	expect("the first one again", evicted)
	forgotten := c.vm()
	forgotten.Status = v1.VirtualMachineStatus{}
	if err := c.Status().Update(t.Context(), forgotten); err != nil {
		t.Fatal(err)
	}
	expect("a status that was not written", evicted)
	cluster.Limits.KubeVirtGuests = true
	c.shutDownGuest()
	expect("KubeVirt runs the guest", "")
}
