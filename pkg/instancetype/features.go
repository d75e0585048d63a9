package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: features.preferredAcpi, preferredApic, preferredHyperv (each of its features by itself),
// preferredKvm, preferredPvspinlock, preferredSmm.

// preferFeatures is applyFeaturePreferences. Trap: KubeVirt writes preferredAcpi over the user's acpi; Kiln keeps the user's.
func preferFeatures(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	want := p.Spec.Features
	if want == nil {
		return
	}
	if vmi.Spec.Domain.Features == nil {
		vmi.Spec.Domain.Features = &v1.Features{}
	}
	have := vmi.Spec.Domain.Features
	if want.PreferredAcpi != nil && have.ACPI.Enabled == nil {
		have.ACPI = *want.PreferredAcpi.DeepCopy()
		log.Note(&have.ACPI, want.PreferredAcpi)
	}
	fillCopy(log, &have.APIC, want.PreferredApic)
	fillCopy(log, &have.KVM, want.PreferredKvm)
	fillCopy(log, &have.Pvspinlock, want.PreferredPvspinlock)
	fillCopy(log, &have.SMM, want.PreferredSmm)
	if want.PreferredHyperv == nil {
		return
	}
	if have.Hyperv == nil {
		have.Hyperv = &v1.FeatureHyperv{}
	}
	preferHyperv(have.Hyperv, want.PreferredHyperv, log)
}

// preferHyperv is applyHyperVFeaturePreferences: each feature is filled by itself, beside the user's features. hypervPassthrough has no preference.
func preferHyperv(have, want *v1.FeatureHyperv, log *filled.Log) {
	fillCopy(log, &have.Relaxed, want.Relaxed)
	fillCopy(log, &have.VAPIC, want.VAPIC)
	fillCopy(log, &have.Spinlocks, want.Spinlocks)
	fillCopy(log, &have.VPIndex, want.VPIndex)
	fillCopy(log, &have.Runtime, want.Runtime)
	fillCopy(log, &have.SyNIC, want.SyNIC)
	fillCopy(log, &have.SyNICTimer, want.SyNICTimer)
	fillCopy(log, &have.Reset, want.Reset)
	fillCopy(log, &have.VendorID, want.VendorID)
	fillCopy(log, &have.Frequencies, want.Frequencies)
	fillCopy(log, &have.Reenlightenment, want.Reenlightenment)
	fillCopy(log, &have.TLBFlush, want.TLBFlush)
	fillCopy(log, &have.IPI, want.IPI)
	fillCopy(log, &have.EVMCS, want.EVMCS)
}
