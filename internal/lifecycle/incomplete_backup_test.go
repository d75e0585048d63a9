package lifecycle

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	v1 "kubevirt.io/api/core/v1"
)

func (c *testCluster) lostPins() string {
	c.Helper()
	for _, found := range conditionsOfType(c.vm(), v1alpha1.ConditionPinsLost) {
		return found.Reason + ": " + found.Message
	}
	return ""
}

// notes returns the events since the last call.
func (c *testCluster) notes() string {
	c.Helper()
	var all []string
	for range len(c.eventRecorder().Events) {
		all = append(all, <-c.eventRecorder().Events)
	}
	return strings.Join(all, "\n")
}

// TestIncompleteBackup: what a backup lacked is in a condition until the owner of the VM has read it, and in an event at the first start.
func TestIncompleteBackup(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed", v1alpha1.AnnotationLostPins: "own-1, web-2"}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	if text := c.lostPins(); !strings.HasPrefix(text, "RevisionMissing: ") || !strings.Contains(text, "did not have: own-1, web-2. ") {
		t.Error(text)
	}
	if all := c.notes(); strings.Count(all, "Warning HardwareMissing") != 1 {
		t.Errorf("events:\n%s", all)
	}
	c.writeRecord(`{"machine":"q35-1"}`)
	c.setPhase(v1.Running)
	c.shutDownGuest()
	c.reconcileRepeatedly()
	if all := c.notes(); strings.Contains(all, "HardwareMissing") {
		t.Errorf("a guest with a record:\n%s", all)
	}
	c.editVM(func(vm *v1.VirtualMachine) { vm.Annotations[v1alpha1.AnnotationLostPins] = strings.Repeat("x", 4<<10) })
	c.reconcileRepeatedly()
	if text := c.lostPins(); len(text) > 1100 || !strings.Contains(text, "remove annotation 'kilnvm.io/lost-pins'") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	c.editVM(func(vm *v1.VirtualMachine) { delete(vm.Annotations, v1alpha1.AnnotationLostPins) })
	c.reconcileRepeatedly()
	if text := c.lostPins(); text != "" {
		t.Errorf("the owner has read it: %s", text)
	}
}

// TestHardwareOfNewVMs: no event about VMs that were created without an identity, or that have recorded hardware.
func TestHardwareOfNewVMs(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: string(vm.UID)}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	if all := c.notes(); strings.Contains(all, "HardwareMissing") {
		t.Errorf("a new VM:\n%s", all)
	}
}

// TestLostPinsBesideKubeVirt: one event about each VM takes the place of the condition.
func TestLostPinsBesideKubeVirt(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationLostPins: "own-1"}
	c := newCluster(t, vm)
	c.controller.KubeVirt = fakeKubeVirt{}
	c.reconcileRepeatedly()
	if all := c.notes(); strings.Count(all, "Warning RevisionMissing") != 1 || !strings.Contains(all, "own-1") || c.lostPins() != "" {
		t.Errorf("condition '%s', events:\n%s", c.lostPins(), all)
	}
}
