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

// newClusterWithRunningGuest returns a cluster with webhooks and a VM whose guest runs.
func newClusterWithRunningGuest(t *testing.T, strategy v1.VirtualMachineRunStrategy) *testCluster {
	t.Helper()
	vm, memory := newVM(strategy), resource.MustParse("1Gi")
	vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vm.Spec.Template.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
	vm.Spec.Template.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	c := newCluster(t, vm)
	c.admit = func(vmi *v1.VirtualMachineInstance) error {
		*vmi = *explicit.Expand(t, vmi)
		return nil
	}
	c.reconcileRepeatedly()
	if strategy == v1.RunStrategyManual {
		c.setRequests(startRequest)
		c.reconcileRepeatedly()
	}
	c.setPhase(v1.Running)
	return c
}

// editVM changes the VM and its generation, as an edit of its owner does.
func (c *testCluster) editVM(change func(*v1.VirtualMachine)) {
	c.Helper()
	vm := c.vm()
	change(vm)
	vm.Generation++
	if err := c.Update(c.Context(), vm); err != nil {
		c.Fatal(err)
	}
}

// restartRequired returns the message of condition RestartRequired, empty without it.
func (c *testCluster) restartRequired() string {
	c.Helper()
	all := conditionsOfType(c.vm(), v1.VirtualMachineRestartRequired)
	if len(all) == 0 {
		return ""
	}
	if len(all) > 1 || all[0].Status != "True" || all[0].Reason != "RestartRequired" || all[0].LastTransitionTime.IsZero() {
		c.Errorf("the conditions are %+v", all)
	}
	return all[0].Message
}

// TestRestartRequired: an edit of a VM whose guest runs is reported with the changed fields and the verdict about the hardware, until the restart.
func TestRestartRequired(t *testing.T) {
	c := newClusterWithRunningGuest(t, v1.RunStrategyAlways)
	if c.reconcileRepeatedly(); c.restartRequired() != "" {
		t.Fatalf("nothing was edited, and '%s'", c.restartRequired())
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure) })
	if c.reconcileRepeatedly(); c.restartRequired() != "" {
		t.Errorf("the run strategy needs no restart, and '%s'", c.restartRequired())
	}
	c.editVM(func(vm *v1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.Devices.Rng = &v1.Rng{}
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	c.reconcileRepeatedly()
	for _, part := range []string{"changes of domain.devices.rng, hostname take effect when the virtual machine is restarted",
		"; verdict on the hardware: needs restart: ", "rng 'rng' is added"} {
		if !strings.Contains(c.restartRequired(), part) {
			t.Errorf("the condition is '%s', want '%s'", c.restartRequired(), part)
		}
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Devices.Rng = nil })
	if c.reconcileRepeatedly(); !strings.Contains(c.restartRequired(), "changes of hostname take effect") ||
		!strings.Contains(c.restartRequired(), "verdict on the hardware: compatible") {
		t.Errorf("the condition is '%s'", c.restartRequired())
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "" })
	if c.reconcileRepeatedly(); c.restartRequired() != "" {
		t.Errorf("the edit was taken back, and '%s'", c.restartRequired())
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "shop"} })
	if c.reconcileRepeatedly(); !strings.Contains(c.restartRequired(), "changes of metadata take effect") {
		t.Errorf("the condition is '%s'", c.restartRequired())
	}
	before := c.vmi().UID
	c.setRequests(stopRequest(before), startRequest)
	c.reconcileRepeatedly()
	if c.setPhase(v1.Running); c.vmi().UID == before {
		t.Fatal("the guest was not restarted")
	}
	if c.reconcileRepeatedly(); c.restartRequired() != "" {
		t.Errorf("the guest was restarted, and '%s'", c.restartRequired())
	}
}

// TestImpossibleRestart: an edit with which the VM cannot start again is reported, and is rolled out when that is corrected. While that is unknown, the
// condition stays.
func TestImpossibleRestart(t *testing.T) {
	c := newClusterWithRunningGuest(t, v1.RunStrategyAlways)
	before, admit := c.vmi().UID, c.admit
	wrong := apierrors.NewInvalid(v1.VirtualMachineInstanceGroupVersionKind.GroupKind(), "a",
		field.ErrorList{field.Forbidden(field.NewPath("spec"), "by a policy")})
	c.admit = func(*v1.VirtualMachineInstance) error { return wrong }
	c.editVM(func(vm *v1.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
		vm.Spec.Template.Spec.Hostname = "shop"
	})
	if result := c.reconcileRepeatedly(); !strings.Contains(c.restartRequired(), "cannot be started as it is now") ||
		!strings.Contains(c.restartRequired(), "by a policy") ||
		c.vmi().UID != before || result.RequeueAfter != maxRecheck {
		t.Errorf("the condition is '%s', the VMI %s, looked at again after %s", c.restartRequired(), c.vmi().UID, result.RequeueAfter)
	}
	c.admit = func(*v1.VirtualMachineInstance) error {
		return apierrors.NewInternalError(errors.New("no webhook answers"))
	}
	message := c.restartRequired()
	if _, err := c.controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil || c.restartRequired() != message || c.vmi().UID != before {
		t.Errorf("without webhooks: %v, the condition is '%s', the VMI %s", err, c.restartRequired(), c.vmi().UID)
	}
	c.admit = admit
	c.reconcileRepeatedly()
	if c.reconcileRepeatedly(); c.vmi().UID == before || c.vmi().Spec.Hostname != "shop" {
		t.Errorf("it is possible now, and the condition is '%s'", c.restartRequired())
	}
}

// TestOthersChanges: a different VMI of the same VM, made by webhooks or a later version of Kiln, is no edit.
func TestOthersChanges(t *testing.T) {
	c := newClusterWithRunningGuest(t, v1.RunStrategyAlways)
	before, admit := c.vmi().UID, c.admit
	c.admit = func(vmi *v1.VirtualMachineInstance) error {
		vmi.Spec.NodeSelector = map[string]string{"added": "later"}
		return admit(vmi)
	}
	c.editVM(func(vm *v1.VirtualMachine) {
		vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
		vm.Spec.RunStrategy = new(v1.RunStrategyRerunOnFailure)
	})
	if c.reconcileRepeatedly(); c.restartRequired() != "" || c.vmi().UID != before {
		t.Errorf("the condition is '%s', the VMI %s", c.restartRequired(), c.vmi().UID)
	}
	c.editVM(func(vm *v1.VirtualMachine) {
		vm.Spec.RunStrategy, vm.Spec.Template.Spec.Hostname = new(v1.RunStrategyHalted), "shop"
	})
	if c.reconcileOnce(); len(c.vm().Status.StateChangeRequests) > 0 {
		t.Errorf("a VM that is halted gets %v", c.vm().Status.StateChangeRequests)
	}
}

// TestRollout: with the annotation, an edit is followed by one restart. Edits that do not change the VMI are followed by none.
func TestRollout(t *testing.T) {
	for _, strategy := range []v1.VirtualMachineRunStrategy{v1.RunStrategyAlways, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce} {
		t.Run(string(strategy), func(t *testing.T) {
			c := newClusterWithRunningGuest(t, strategy)
			before := c.vmi().UID
			c.editVM(func(vm *v1.VirtualMachine) {
				vm.Annotations[v1alpha1.AnnotationRollout] = v1alpha1.RolloutRestart
				vm.Spec.UpdateVolumesStrategy = new(v1.UpdateVolumesStrategyReplacement)
			})
			if c.reconcileRepeatedly(); c.vmi().UID != before {
				t.Fatal("an edit that changes nothing of the VMI restarts it")
			}
			c.editVM(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "shop" })
			c.reconcileRepeatedly()
			c.reconcileRepeatedly()
			if strategy == v1.RunStrategyOnce {
				if c.vmi().UID != before || c.restartRequired() == "" {
					t.Error("a VM that runs once is run again")
				}
				return
			}
			if c.setPhase(v1.Running); c.vmi().UID == before || c.vmi().Spec.Hostname != "shop" {
				t.Fatalf("the VMI is %s with hostname '%s', before %s; requests %v", c.vmi().UID, c.vmi().Spec.Hostname, before, c.vm().Status.StateChangeRequests)
			}
			after := c.vmi().UID
			if c.reconcileRepeatedly(); c.vmi().UID != after || c.restartRequired() != "" || len(c.vm().Status.StateChangeRequests) > 0 {
				t.Errorf("it is restarted once more: %s, '%s', %v", c.vmi().UID, c.restartRequired(), c.vm().Status.StateChangeRequests)
			}
		})
	}
}
