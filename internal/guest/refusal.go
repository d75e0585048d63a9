package guest

import (
	"errors"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Refusal is why a guest is not started, for its owner. Reason is one of condition Synchronized.
type Refusal struct{ Reason, Message string }

func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// NotBindable refuses a VMI for the volumes, networks and devices that the errors name.
func NotBindable(errs field.ErrorList) *Refusal {
	return &Refusal{v1alpha1.ReasonNotBindable, condition.Mistakes(errs)}
}

// NotRendered returns NotExplicit or NotRenderable, by the errors.
func NotRendered(errs field.ErrorList) *Refusal {
	why := condition.NotRendered(errs)
	return &Refusal{why.Reason, why.Message}
}

// NotStarted returns StartFailed for an error of libvirt. A *hypervisor.TakenError has a reason of its own.
func NotStarted(err error) error {
	if taken := (*hypervisor.TakenError)(nil); errors.As(err, &taken) {
		return err
	}
	return &Refusal{v1alpha1.ReasonStartFailed, err.Error()}
}

// RefusalOf returns the refusal that an error of a start is; nil for an error that its owner need not read.
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
