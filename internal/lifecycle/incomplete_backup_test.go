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

// TestIncompleteBackup: the revisions that a backup lacked are in a condition until the owner of the VM has read it.
func TestIncompleteBackup(t *testing.T) {
	vm := newVM(v1.RunStrategyAlways)
	vm.Annotations = map[string]string{v1alpha1.AnnotationIdentity: "seed", v1alpha1.AnnotationLostPins: "own-1, web-2"}
	c := newCluster(t, vm)
	c.reconcileRepeatedly()
	if text := c.lostPins(); !strings.HasPrefix(text, "RevisionMissing: ") || !strings.Contains(text, "did not have: own-1, web-2. ") {
		t.Error(text)
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
