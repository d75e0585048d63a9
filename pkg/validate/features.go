package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.features.hyperv, hypervPassthrough. What one feature needs of another is QEMU's rule; mutate has switched on
// what nobody has switched off.

func hyperv(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	features := guest.Domain.Features
	if features == nil {
		return nil
	}
	at := spec.Child("domain", "features")
	if p := features.HypervPassthrough; p != nil {
		if p.Enabled == nil {
			errs = append(errs, field.Required(at.Child("hypervPassthrough", "enabled"), "say true or false"))
		} else if *p.Enabled && features.Hyperv != nil {
			errs = append(errs, field.Forbidden(at.Child("hyperv"), "may not be set together with `hypervPassthrough`"))
		}
	}
	h := features.Hyperv
	if h == nil {
		return errs
	}
	at = at.Child("hyperv")
	for _, pair := range []struct {
		on         bool
		name, need string
		state      *v1.FeatureState
	}{
		{on(h.EVMCS), "evmcs", "vapic", h.VAPIC},
		{on(h.IPI), "ipi", "vpindex", h.VPIndex},
		{h.TLBFlush != nil && on(&h.TLBFlush.FeatureState), "tlbflush", "vpindex", h.VPIndex},
		{h.SyNICTimer != nil && (h.SyNICTimer.Enabled == nil || *h.SyNICTimer.Enabled), "synictimer", "synic", h.SyNIC},
		{on(h.SyNIC), "synic", "vpindex", h.VPIndex},
	} {
		if pair.on && !on(pair.state) {
			errs = append(errs, field.Invalid(at.Child(pair.name), true, "needs `"+pair.need+"`, which is off"))
		}
	}
	return errs
}

func on(state *v1.FeatureState) bool { return state != nil && (state.Enabled == nil || *state.Enabled) }
