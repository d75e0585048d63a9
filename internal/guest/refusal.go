package guest

import (
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Refusal tells the owner of a VMI why its guest is not started. Reason is a reason of condition Synchronized.
type Refusal struct{ Reason, Message string }

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// NotBindable returns the refusal of a VMI whose volumes, networks or devices, named by the errors, cannot be bound.
func NotBindable(errs field.ErrorList) *Refusal {
	return &Refusal{v1alpha1.ReasonNotBindable, condition.Mistakes(errs)}
}

// NotRendered returns a refusal with reason NotExplicit or NotRenderable, according to the errors.
func NotRendered(errs field.ErrorList) *Refusal {
	why := condition.NotRendered(errs)
	return &Refusal{why.Reason, why.Message}
}

// NotStarted returns a refusal with reason StartFailed for an error of libvirt. It returns a *hypervisor.TakenError unchanged, because that error has its own
// reason.
func NotStarted(err error) error {
	if taken := (*hypervisor.TakenError)(nil); errors.As(err, &taken) {
		return err
	}
	return &Refusal{v1alpha1.ReasonStartFailed, err.Error()}
}

// RefusalOf returns the refusal that a start's error contains. It returns nil for an error that the VMI's owner cannot mend, such as a lost connection.
func RefusalOf(err error) *Refusal {
	var why *Refusal
	var taken *hypervisor.TakenError
	switch {
	case errors.As(err, &taken):
		return &Refusal{taken.Reason, taken.Text}
	case errors.As(err, &why):
		return why
	}
	return nil
}
