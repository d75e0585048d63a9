package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.features.

// spinlockRetries is how often a Windows guest tries a spinlock before it notifies the hypervisor (SetDefaults_FeatureSpinlocks).
const spinlockRetries = 4096

// enableFeatures is SetDefaults_FeatureState over all features: a feature that is present is on unless it is off explicitly. The pass creates domain.features
// and always sets acpi: off on s390x, whose machine has no ACPI (setS390xDefaultFeatures), and on elsewhere. kvm and hypervPassthrough have no default.
func enableFeatures(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	if vmi.Spec.Domain.Features == nil {
		vmi.Spec.Domain.Features = &v1.Features{}
	}
	f := vmi.Spec.Domain.Features
	if f.ACPI.Enabled == nil {
		f.ACPI.Enabled = new(vmi.Spec.Architecture != "s390x")
	}
	if f.APIC != nil {
		enableSwitch(&f.APIC.Enabled)
	}
	for _, state := range []*v1.FeatureState{f.SMM, f.Pvspinlock} {
		enableState(state)
	}
	if f.Hyperv != nil {
		enableHyperV(f.Hyperv)
	}
}

// enableHyperV switches on the features in features.hyperv: SetDefaults_SyNICTimer, SetDefaults_FeatureVendorID and SetDefaults_FeatureSpinlocks.
func enableHyperV(h *v1.FeatureHyperv) {
	for _, state := range []*v1.FeatureState{h.Relaxed, h.VAPIC, h.VPIndex, h.Runtime, h.SyNIC, h.Reset, h.Frequencies, h.Reenlightenment, h.IPI, h.EVMCS} {
		enableState(state)
	}
	if h.TLBFlush != nil {
		enableSwitch(&h.TLBFlush.Enabled)
		enableState(h.TLBFlush.Direct)
		enableState(h.TLBFlush.Extended)
	}
	if h.SyNICTimer != nil {
		enableSwitch(&h.SyNICTimer.Enabled)
		enableState(h.SyNICTimer.Direct)
	}
	if h.VendorID != nil {
		enableSwitch(&h.VendorID.Enabled)
	}
	if h.Spinlocks != nil {
		enableSwitch(&h.Spinlocks.Enabled)
		if *h.Spinlocks.Enabled && h.Spinlocks.Retries == nil {
			h.Spinlocks.Retries = new(uint32(spinlockRetries))
		}
	}
}

func enableState(state *v1.FeatureState) {
	if state != nil {
		enableSwitch(&state.Enabled)
	}
}

// hypervDependencies is SetHypervFeatureDependencies: it switches on the features that an enabled HyperV feature needs, because QEMU would not start without
// them. The table has dependants before their dependencies: synictimer needs synic, which needs vpindex. A dependency that is off explicitly stays off, and
// validate refuses it; the pass then ends, as in KubeVirt.
func hypervDependencies(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	h := vmi.Spec.Domain.Features.Hyperv
	if h == nil {
		return
	}
	for _, dependency := range []struct {
		enabled func() bool
		needs   **v1.FeatureState
	}{
		{func() bool { return isEnabled(h.EVMCS) }, &h.VAPIC},
		{func() bool { return isEnabled(h.IPI) }, &h.VPIndex},
		{func() bool { return h.TLBFlush != nil && ptr.Deref(h.TLBFlush.Enabled, false) }, &h.VPIndex},
		{func() bool { return h.SyNICTimer != nil && ptr.Deref(h.SyNICTimer.Enabled, false) }, &h.SyNIC},
		{func() bool { return isEnabled(h.SyNIC) }, &h.VPIndex},
	} {
		if !dependency.enabled() {
			continue
		}
		if enableMissing(dependency.needs); !isEnabled(*dependency.needs) {
			return
		}
	}
}

// enableMissing adds a feature that is absent, and switches it on unless it is off explicitly.
func enableMissing(state **v1.FeatureState) {
	if *state == nil {
		*state = &v1.FeatureState{}
	}
	enableState(*state)
}

// isEnabled reports whether a feature is on, once the pass "features" has filled its switch.
func isEnabled(state *v1.FeatureState) bool { return state != nil && ptr.Deref(state.Enabled, false) }
