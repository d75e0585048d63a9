package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// running is a cluster with a VM whose guest runs, and whose VMI is as admission makes it.
func running(t *testing.T, strategy v1.VirtualMachineRunStrategy) *cluster {
	t.Helper()
	vm, memory := machine(strategy), resource.MustParse("1Gi")
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
	vm.Spec.Template.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	c := newCluster(t, vm)
	c.step()
	if strategy == v1.RunStrategyManual {
		c.request(startNow)
		c.step()
	}
	c.admit()
	return c
}

// admit does to the VMI what admission does, and lets its guest run.
func (c *cluster) admit() {
	c.Helper()
	explicit, verdict, err := c.controller.explicit(c.Context(), c.guest())
	if err != nil || !verdict.Allowed() {
		c.Fatal(verdict.Errors, err)
	}
	if err := c.Update(c.Context(), explicit); err != nil {
		c.Fatal(err)
	}
	c.phase(v1.Running)
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
	for _, condition := range known(c.vm(), v1.VirtualMachineRestartRequired) {
		if condition.Status != "True" || condition.Reason != "RestartRequired" || condition.LastTransitionTime.IsZero() {
			c.Errorf("the condition is %+v", condition)
		}
		return condition.Message
	}
	return ""
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
	if c.admit(); c.guest().UID == before {
		t.Fatal("the guest was not restarted")
	}
	if c.step(); c.waits() != "" {
		t.Errorf("the guest was restarted, and '%s'", c.waits())
	}
}

// TestImpossibleRestart: an edit by which the VM cannot start again is named, and never rolled out.
func TestImpossibleRestart(t *testing.T) {
	vm := machine(v1.RunStrategyAlways)
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "small"}
	c := newCluster(t, vm, smallInstancetype())
	c.step()
	c.admit()
	before := c.guest().UID
	c.edit(func(vm *v1.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
		vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Sockets: 4}
	})
	if c.step(); !strings.Contains(c.waits(), "cannot be started as it is now") || c.guest().UID != before {
		t.Errorf("the condition is '%s', the VMI %s", c.waits(), c.guest().UID)
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
			if c.admit(); c.guest().UID == before || c.guest().Spec.Hostname != "shop" {
				t.Fatalf("the VMI is %s with hostname '%s', before %s; requests %v", c.guest().UID, c.guest().Spec.Hostname, before, c.vm().Status.StateChangeRequests)
			}
			after := c.guest().UID
			if c.step(); c.guest().UID != after || c.waits() != "" || len(c.vm().Status.StateChangeRequests) > 0 {
				t.Errorf("it is restarted once more: %s, '%s', %v", c.guest().UID, c.waits(), c.vm().Status.StateChangeRequests)
			}
		})
	}
}
