package lifecycle

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/shorten"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// longestLostPins is the number of characters that a message quotes of annotation kilnvm.io/lost-pins: eight names of revisions.
const longestLostPins = 640

// lostPinsMessage returns the message of condition PinsLost; empty if the VM has lost no pins. Tenants can write the annotation.
func lostPinsMessage(vm *v1.VirtualMachine) string {
	lost := strings.TrimSpace(vm.Annotations[v1alpha1.AnnotationLostPins])
	if lost == "" {
		return ""
	}
	return condition.Message(fmt.Sprintf("the VM was created with pins to ControllerRevisions that its namespace did not have: %s. It has the current "+
		"objects in their place. To get what it had, delete the VM, restore the revisions and then the VM; to keep what it has, remove annotation '%s'",
		shorten.Runes(lost, longestLostPins), v1alpha1.AnnotationLostPins))
}

// reportLostPins records one event about a VM with lost pins in the life of this process, because virt-controller removes conditions of Kiln.
func (c *Controller) reportLostPins(key types.NamespacedName, s *state) {
	text := lostPinsMessage(s.vm)
	if text == "" {
		c.lostPinsReported.Delete(key)
		return
	}
	if of, reported := c.lostPinsReported.Swap(key, s.vm.UID); !reported || of != s.vm.UID {
		c.recordEvent(s, corev1.EventTypeWarning, v1alpha1.ReasonRevisionMissing, text)
	}
}
