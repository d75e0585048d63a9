package imported

import (
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// readFeatures reads the features that have a field. Others have one value in each guest of Kiln.
func (r *reader) readFeatures() {
	given := r.dom.Features
	if given == nil {
		given = &libvirtxml.DomainFeatureList{}
	}
	features := &v1.Features{ACPI: v1.FeatureState{Enabled: ptr.To(given.ACPI != nil)}}
	if given.APIC != nil {
		features.APIC = &v1.FeatureAPIC{FeatureState: v1.FeatureState{Enabled: ptr.To(true)}, EndOfInterrupt: given.APIC.EOI == "on"}
	}
	if given.SMM != nil {
		features.SMM = &v1.FeatureState{Enabled: ptr.To(given.SMM.State != "off")}
	}
	features.Pvspinlock = stateOf(given.PVSpinlock)
	if given.KVM != nil && given.KVM.Hidden != nil {
		features.KVM = &v1.FeatureKVM{Hidden: given.KVM.Hidden.State == "on"}
	}
	if efi := r.spec.Domain.Firmware.Bootloader; efi != nil && efi.EFI != nil && *efi.EFI.SecureBoot {
		features.SMM = &v1.FeatureState{Enabled: ptr.To(true)} // libvirt turns it on for such firmware
	}
	switch given := given.HyperV; {
	case given == nil:
	case given.Mode == "passthrough":
		features.HypervPassthrough = &v1.HyperVPassthrough{Enabled: ptr.To(true)}
	default:
		features.Hyperv = readHyperV(given)
	}
	r.spec.Domain.Features = features
}

// stateOf returns a feature that is on, off or absent. libvirt's default for a feature that is there is on.
func stateOf(state *libvirtxml.DomainFeatureState) *v1.FeatureState {
	if state == nil {
		return nil
	}
	return &v1.FeatureState{Enabled: ptr.To(state.State != "off")}
}

// readHyperV reads the enlightenments.
func readHyperV(given *libvirtxml.DomainFeatureHyperV) *v1.FeatureHyperv {
	out := &v1.FeatureHyperv{
		Relaxed: stateOf(given.Relaxed), VAPIC: stateOf(given.VAPIC), VPIndex: stateOf(given.VPIndex), Runtime: stateOf(given.Runtime),
		SyNIC: stateOf(given.Synic), Reset: stateOf(given.Reset), Frequencies: stateOf(given.Frequencies),
		Reenlightenment: stateOf(given.ReEnlightenment), IPI: stateOf(given.IPI), EVMCS: stateOf(given.EVMCS),
	}
	if s := given.Spinlocks; s != nil {
		out.Spinlocks = &v1.FeatureSpinlocks{FeatureState: *stateOf(&s.DomainFeatureState)}
		if s.Retries > 0 {
			out.Spinlocks.Retries = ptr.To(uint32(s.Retries))
		}
	}
	if s := given.STimer; s != nil {
		out.SyNICTimer = &v1.SyNICTimer{FeatureState: *stateOf(&s.DomainFeatureState), Direct: stateOf(s.Direct)}
	}
	if v := given.VendorId; v != nil {
		out.VendorID = &v1.FeatureVendorID{FeatureState: *stateOf(&v.DomainFeatureState), VendorID: v.Value}
	}
	if f := given.TLBFlush; f != nil {
		out.TLBFlush = &v1.TLBFlush{FeatureState: *stateOf(&f.DomainFeatureState), Direct: stateOf(f.Direct), Extended: stateOf(f.Extended)}
	}
	return out
}
