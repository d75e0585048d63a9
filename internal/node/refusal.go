package node

import (
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refusal is the reason and message of why this machine does not start a VMI, for its owner.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// Errors of a start that its owner need not read.
var (
	// errHardwareAwaited is the error of a start that the controller's next update of the GuestHardware causes again.
	errHardwareAwaited = errors.New("the controller has not named this VMI in its GuestHardware yet")
	// errNotClaimed is the error of a start whose VMI was deleted, or claimed by another machine, in the meantime.
	errNotClaimed = errors.New("the VMI is no longer to run on this machine")
)

// notRendered returns NotExplicit or NotRenderable, by the errors.
func notRendered(errs field.ErrorList) *refusal {
	why := condition.NotRendered(errs)
	return &refusal{why.Reason, why.Message}
}

// notStarted returns StartFailed for an error of libvirt. A *hypervisor.TakenError has a reason of its own.
func notStarted(err error) error {
	if taken := (*hypervisor.TakenError)(nil); errors.As(err, &taken) {
		return err
	}
	return &refusal{v1alpha1.ReasonStartFailed, err.Error()}
}
