package lifecycle

import (
	"errors"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/test/explicit"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// running is a cluster with webhooks, and a VM whose guest runs.
func running(t *testing.T, strategy v1.VirtualMachineRunStrategy) *cluster {
	t.Helper()
	vm, memory := machine(strategy), resource.MustParse("1Gi")
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
	vm.Spec.Template.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	c := newCluster(t, vm)
	c.admit = func(vmi *v1.VirtualMachineInstance) error {
		*vmi = *explicit.Expand(t, vmi)
		return nil
	}
	c.step()
	if strategy == v1.RunStrategyManual {
		c.request(startNow)
		c.step()
	}
	c.phase(v1.Running)
	return c
}

// edit changes the VM, as its owner does.
func (c *cluster) edit(change func(*v1.VirtualMachine)) {
	c.Helper()
	vm := c.vm()
	change(vm)
	vm.Generation++
	if err := c.Update(c.Context(), vm); err != nil {
		c.Fatal(err)
	}
}

// waits returns the message of condition RestartRequired, empty without it.
func (c *cluster) waits() string {
	c.Helper()
	all := known(c.vm(), v1.VirtualMachineRestartRequired)
	if len(all) == 0 {
		return ""
	}
	if len(all) > 1 || all[0].Status != "True" || all[0].Reason != "RestartRequired" || all[0].LastTransitionTime.IsZero() {
		c.Errorf("the conditions are %+v", all)
	}
	return all[0].Message
}

// TestRestartRequired: an edit of a VM whose guest runs is reported with the fields and the verdict about the hardware, and no longer than it waits.
func TestRestartRequired(t *testing.T) {
	c := running(t, v1.RunStrategyAlways)
	if c.step(); c.waits() != "" {
		t.Fatalf("nothing was edited, and '%s'", c.waits())
	}
	c.edit(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure) })
	if c.step(); c.waits() != "" {
		t.Errorf("the run strategy needs no restart, and '%s'", c.waits())
	}
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Devices.Rng = &v1.Rng{}
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	c.step()
	for _, part := range []string{"changes of domain.devices.rng, hostname take effect when the virtual machine is restarted",
		"; verdict on the hardware: needs restart: ", "rng 'rng' is added"} {
		if !strings.Contains(c.waits(), part) {
			t.Errorf("the condition is '%s', want '%s'", c.waits(), part)
		}
	}
	c.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Devices.Rng = nil })
	if c.step(); !strings.Contains(c.waits(), "changes of hostname take effect") || !strings.Contains(c.waits(), "verdict on the hardware: compatible") {
		t.Errorf("the condition is '%s'", c.waits())
	}
	c.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "" })
	if c.step(); c.waits() != "" {
		t.Errorf("the edit was taken back, and '%s'", c.waits())
	}
	c.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "shop"} })
	if c.step(); !strings.Contains(c.waits(), "changes of metadata take effect") {
		t.Errorf("the condition is '%s'", c.waits())
	}
	before := c.guest().UID
	c.request(stopOf(before), startNow)
	c.step()
	if c.phase(v1.Running); c.guest().UID == before {
		t.Fatal("the guest was not restarted")
	}
	if c.step(); c.waits() != "" {
		t.Errorf("the guest was restarted, and '%s'", c.waits())
	}
}

// TestImpossibleRestart: an edit by which the VM cannot start again is named, and is rolled out when that is corrected. While nobody can tell, nothing is.
func TestImpossibleRestart(t *testing.T) {
	c := running(t, v1.RunStrategyAlways)
	before, admit := c.guest().UID, c.admit
	wrong := apierrors.NewInvalid(v1.VirtualMachineInstanceGroupVersionKind.GroupKind(), "a",
		field.ErrorList{field.Forbidden(field.NewPath("spec"), "by a policy")})
	c.admit = func(*v1.VirtualMachineInstance) error { return wrong }
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	if result := c.step(); !strings.Contains(c.waits(), "cannot be started as it is now") || !strings.Contains(c.waits(), "by a policy") ||
		c.guest().UID != before || result.RequeueAfter != maxRecheck {
		t.Errorf("the condition is '%s', the VMI %s, looked at again after %s", c.waits(), c.guest().UID, result.RequeueAfter)
	}
	c.admit = func(*v1.VirtualMachineInstance) error {
		return apierrors.NewInternalError(errors.New("no webhook answers"))
	}
	said := c.waits()
	if _, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil || c.waits() != said || c.guest().UID != before {
		t.Errorf("without webhooks: %v, the condition is '%s', the VMI %s", err, c.waits(), c.guest().UID)
	}
	c.admit = admit
	c.step()
	if c.step(); c.guest().UID == before || c.guest().Spec.Hostname != "shop" {
		t.Errorf("it is possible now, and the condition is '%s'", c.waits())
	}
}

// TestOthersChanges: what webhooks or later versions of Kiln make of the same VM is no edit.
func TestOthersChanges(t *testing.T) {
	c := running(t, v1.RunStrategyAlways)
	before, admit := c.guest().UID, c.admit
	c.admit = func(vmi *v1.VirtualMachineInstance) error {
		vmi.Spec.NodeSelector = map[string]string{"added": "later"}
		return admit(vmi)
	}
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
		vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure)
	})
	if c.step(); c.waits() != "" || c.guest().UID != before {
		t.Errorf("the condition is '%s', the VMI %s", c.waits(), c.guest().UID)
	}
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Spec.RunStrategy, vm.Spec.Template.Spec.Hostname = new(v1.RunStrategyHalted), "shop"
	})
	if c.once(); len(c.vm().Status.StateChangeRequests) > 0 {
		t.Errorf("a VM that is halted gets %v", c.vm().Status.StateChangeRequests)
	}
}

// TestRollout: with the annotation, an edit is followed by one restart. Edits that change nothing of the VMI are followed by none.
func TestRollout(t *testing.T) {
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce} {
		t.Run(string(strategy), func(t *testing.T) {
			c := running(t, strategy)
			before := c.guest().UID
			c.edit(func(vm *v1.VirtualMachine) {
				vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
				vm.Spec.UpdateVolumesStrategy = new(v1.UpdateVolumesStrategyReplacement)
			})
			if c.step(); c.guest().UID != before {
				t.Fatal("an edit that changes nothing of the VMI restarts it")
			}
			c.edit(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "shop" })
			c.step()
			c.step()
			if strategy == v1.RunStrategyOnce {
				if c.guest().UID != before || c.waits() == "" {
					t.Error("a VM that runs once is run again")
				}
				return
			}
			if c.phase(v1.Running); c.guest().UID == before || c.guest().Spec.Hostname != "shop" {
				t.Fatalf("the VMI is %s with hostname '%s', before %s; requests %v", c.guest().UID, c.guest().Spec.Hostname, before, c.vm().Status.StateChangeRequests)
			}
			after := c.guest().UID
			if c.step(); c.guest().UID != after || c.waits() != "" || len(c.vm().Status.StateChangeRequests) > 0 {
				t.Errorf("it is restarted once more: %s, '%s', %v", c.guest().UID, c.waits(), c.vm().Status.StateChangeRequests)
			}
		})
	}
}
