package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.features. A feature that is mentioned is on. ACPI is always mentioned, on s390x as off: that machine has none.

// spinlockRetries is how often a Windows guest spins before it tells the hypervisor (Microsoft's own recommendation is 4095
// and above).
const spinlockRetries = 4096

func features(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	if vmi.Spec.Domain.Features == nil {
		vmi.Spec.Domain.Features = &v1.Features{}
	}
	f := vmi.Spec.Domain.Features
	if f.ACPI.Enabled == nil {
		f.ACPI.Enabled = new(vmi.Spec.Architecture != "s390x")
	}
	if f.APIC != nil {
		enable(&f.APIC.Enabled)
	}
	for _, state := range []*v1.FeatureState{f.SMM, f.Pvspinlock} {
		enableState(state)
	}
	if f.Hyperv != nil {
		hyperv(f.Hyperv)
	}
}

func hyperv(h *v1.FeatureHyperv) {
	for _, state := range []*v1.FeatureState{h.Relaxed, h.VAPIC, h.VPIndex, h.Runtime, h.SyNIC, h.Reset, h.Frequencies, h.Reenlightenment, h.IPI, h.EVMCS} {
		enableState(state)
	}
	if h.TLBFlush != nil {
		enable(&h.TLBFlush.Enabled)
		enableState(h.TLBFlush.Direct)
		enableState(h.TLBFlush.Extended)
	}
	if h.SyNICTimer != nil {
		enable(&h.SyNICTimer.Enabled)
		enableState(h.SyNICTimer.Direct)
	}
	if h.VendorID != nil {
		enable(&h.VendorID.Enabled)
	}
	if h.Spinlocks != nil {
		enable(&h.Spinlocks.Enabled)
		if *h.Spinlocks.Enabled && h.Spinlocks.Retries == nil {
			h.Spinlocks.Retries = new(uint32(spinlockRetries))
		}
	}
}

func enableState(state *v1.FeatureState) {
	if state != nil {
		enable(&state.Enabled)
	}
}

// hypervDependencies switches on what an enabled Hyper-V feature needs (QEMU refuses to start otherwise). One that is off explicitly
// stays off, for validate to report, and nothing more is added to a guest that is refused. What synictimer needs has needs of its own.
func hypervDependencies(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	h := vmi.Spec.Domain.Features.Hyperv
	if h == nil {
		return
	}
	for _, dependency := range []struct {
		enabled func() bool
		needs   **v1.FeatureState
	}{
		{func() bool { return on(h.EVMCS) }, &h.VAPIC},
		{func() bool { return on(h.IPI) }, &h.VPIndex},
		{func() bool { return h.TLBFlush != nil && isTrue(h.TLBFlush.Enabled) }, &h.VPIndex},
		{func() bool { return h.SyNICTimer != nil && isTrue(h.SyNICTimer.Enabled) }, &h.SyNIC},
		{func() bool { return on(h.SyNIC) }, &h.VPIndex},
	} {
		if !dependency.enabled() {
			continue
		}
		if need(dependency.needs); !on(*dependency.needs) {
			return
		}
	}
}

func need(state **v1.FeatureState) {
	if *state == nil {
		*state = &v1.FeatureState{}
	}
	enableState(*state)
}

func on(state *v1.FeatureState) bool { return state != nil && isTrue(state.Enabled) }

func isTrue(set *bool) bool { return set != nil && *set }
