package instancetype

import v1 "kubevirt.io/api/core/v1"

// Fields of a preference: features.preferredAcpi, preferredApic, preferredHyperv (each of its features for itself),
// preferredKvm, preferredPvspinlock, preferredSmm.

func preferFeatures(p *Preference, vmi *v1.VirtualMachineInstance) {
	want := p.Spec.Features.DeepCopy()
	if want == nil {
		return
	}
	if vmi.Spec.Domain.Features == nil {
		vmi.Spec.Domain.Features = &v1.Features{}
	}
	have := vmi.Spec.Domain.Features
	if want.PreferredAcpi != nil && have.ACPI.Enabled == nil {
		have.ACPI = *want.PreferredAcpi
	}
	fill(&have.APIC, want.PreferredApic)
	fill(&have.KVM, want.PreferredKvm)
	fill(&have.Pvspinlock, want.PreferredPvspinlock)
	fill(&have.SMM, want.PreferredSmm)
	if want.PreferredHyperv == nil {
		return
	}
	if have.Hyperv == nil {
		have.Hyperv = &v1.FeatureHyperv{}
	}
	preferHyperv(have.Hyperv, want.PreferredHyperv)
}

func preferHyperv(have, want *v1.FeatureHyperv) {
	fill(&have.Relaxed, want.Relaxed)
	fill(&have.VAPIC, want.VAPIC)
	fill(&have.Spinlocks, want.Spinlocks)
	fill(&have.VPIndex, want.VPIndex)
	fill(&have.Runtime, want.Runtime)
	fill(&have.SyNIC, want.SyNIC)
	fill(&have.SyNICTimer, want.SyNICTimer)
	fill(&have.Reset, want.Reset)
	fill(&have.VendorID, want.VendorID)
	fill(&have.Frequencies, want.Frequencies)
	fill(&have.Reenlightenment, want.Reenlightenment)
	fill(&have.TLBFlush, want.TLBFlush)
	fill(&have.IPI, want.IPI)
	fill(&have.EVMCS, want.EVMCS)
}
