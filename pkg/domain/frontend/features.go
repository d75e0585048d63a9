package frontend

import (
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns domain.features, and what dedicatedCpuPlacement and realtime of domain.cpu tell the guest. The machine type decides on a feature that
// is not written; it is recorded.
// KubeVirt: converter/compute/hypervisor_features.go. libvirt: "Hypervisor features".

func (g *guest) renderFeatures() *libvirtxml.DomainFeatureList {
	out := &libvirtxml.DomainFeatureList{PMU: g.renderPMU()}
	if g.arch.gic != "" {
		out.GIC = &libvirtxml.DomainFeatureGIC{Version: g.arch.gic}
	}
	if g.spec.Architecture == "amd64" && !record.Omits(g.Frozen, record.OmittedVMPort) {
		// QEMU has VMware's backdoor port by default, by which some guests take the hypervisor for VMware.
		out.VMPort = &libvirtxml.DomainFeatureState{State: "off"}
	}
	path := featuresPath
	f := g.spec.Domain.Features
	if f == nil {
		g.addError(field.Required(path, ""))
		return out
	}
	if g.isEnabled(&f.ACPI, path, "acpi") {
		out.ACPI = &libvirtxml.DomainFeature{}
	}
	out.APIC = g.renderAPIC(f.APIC, path)
	if state := g.featureState(f.SMM, path, "smm"); state != nil {
		out.SMM = &libvirtxml.DomainFeatureSMM{State: state.State}
	}
	if g.remapsInterrupts() {
		// libvirt requires the IOAPIC in QEMU for an IOMMU that remaps interrupts: the kernel's cannot.
		out.IOAPIC = &libvirtxml.DomainFeatureIOAPIC{Driver: "qemu"}
	}
	out.PVSpinlock = g.featureState(f.Pvspinlock, path, "pvspinlock")
	out.KVM = g.renderKVM(f)
	out.HyperV = g.renderHyperV(f, path)
	if *out == (libvirtxml.DomainFeatureList{}) {
		return nil // libvirt drops an empty list
	}
	return out
}

// renderSleepStates withholds the sleep states that the record omits. KubeVirt's guests have QEMU's default, which is both. libvirt: "Power Management".
func (g *guest) renderSleepStates() *libvirtxml.DomainPM {
	if g.spec.Architecture != "amd64" { // other boards have no such states
		return nil
	}
	omitted := func(entry string) *libvirtxml.DomainPMPolicy {
		if !record.Omits(g.Frozen, entry) {
			return nil
		}
		return &libvirtxml.DomainPMPolicy{Enabled: "no"}
	}
	return attr.UnlessEmpty(libvirtxml.DomainPM{SuspendToMem: omitted(record.OmittedSuspendToMemory), SuspendToDisk: omitted(record.OmittedSuspendToDisk)})
}

// isEnabled returns the state of a feature that is set, whose field is names below path. Stage 1 has written enabled, so its absence is an error.
func (g *guest) isEnabled(f *v1.FeatureState, path *field.Path, names ...string) bool {
	if f.Enabled == nil {
		for _, name := range names {
			path = path.Child(name)
		}
		g.addError(field.Required(path.Child("enabled"), ""))
		return false
	}
	return *f.Enabled
}

// featureState returns nil for a feature that is not set, which libvirt leaves to QEMU.
func (g *guest) featureState(f *v1.FeatureState, path *field.Path, names ...string) *libvirtxml.DomainFeatureState {
	if f == nil {
		return nil
	}
	return &libvirtxml.DomainFeatureState{State: attr.OnOff(g.isEnabled(f, path, names...))}
}

// renderAPIC renders endOfInterrupt too, which KubeVirt accepts and ignores.
func (g *guest) renderAPIC(f *v1.FeatureAPIC, path *field.Path) *libvirtxml.DomainFeatureAPIC {
	if f == nil || !g.isEnabled(&f.FeatureState, path, "apic") {
		return nil
	}
	out := &libvirtxml.DomainFeatureAPIC{}
	if f.EndOfInterrupt {
		out.EOI = "on"
	}
	return out
}

// renderPMU returns 'off' with cpu.realtime, because the counters would interrupt the guest, and with TDX, as in KubeVirt.
func (g *guest) renderPMU() *libvirtxml.DomainFeatureState {
	c, s := g.spec.Domain.CPU, g.spec.Domain.LaunchSecurity
	if (c != nil && c.Realtime != nil) || (s != nil && s.TDX != nil) {
		return &libvirtxml.DomainFeatureState{State: "off"}
	}
	return nil
}

// renderKVM returns hidden, even as 'off', if features.kvm is set, as KubeVirt does.
func (g *guest) renderKVM(f *v1.Features) *libvirtxml.DomainFeatureKVM {
	var out libvirtxml.DomainFeatureKVM
	if f.KVM != nil {
		out.Hidden = &libvirtxml.DomainFeatureState{State: attr.OnOff(f.KVM.Hidden)}
	}
	// The hint keeps the guest from yielding in spinlocks, because no other guest runs on its CPUs. KubeVirt gives it on amd64 only.
	if c := g.spec.Domain.CPU; c != nil && c.DedicatedCPUPlacement && g.spec.Architecture == "amd64" {
		out.HintDedicated = &libvirtxml.DomainFeatureState{State: "on"}
	}
	return attr.UnlessEmpty(out)
}

func (g *guest) renderHyperV(f *v1.Features, path *field.Path) *libvirtxml.DomainFeatureHyperV {
	// Stage 1 writes enabled for all features except this one, which has no default in the API. KubeVirt dereferences a missing enabled; here it
	// means true.
	if p := f.HypervPassthrough; p != nil && ptr.Deref(p.Enabled, true) {
		return &libvirtxml.DomainFeatureHyperV{Mode: "passthrough"}
	}
	h := f.Hyperv
	if h == nil {
		return nil
	}
	path = path.Child("hyperv")
	state := func(f *v1.FeatureState, name string) *libvirtxml.DomainFeatureState {
		return g.featureState(f, path, name)
	}
	return &libvirtxml.DomainFeatureHyperV{
		Mode:            "custom",
		Relaxed:         state(h.Relaxed, "relaxed"),
		VAPIC:           state(h.VAPIC, "vapic"),
		Spinlocks:       g.renderSpinlocks(h.Spinlocks, path.Child("spinlocks")),
		VPIndex:         state(h.VPIndex, "vpindex"),
		Runtime:         state(h.Runtime, "runtime"),
		Synic:           state(h.SyNIC, "synic"),
		STimer:          g.renderSTimer(h.SyNICTimer, path.Child("synictimer")),
		Reset:           state(h.Reset, "reset"),
		VendorId:        g.renderVendorID(h.VendorID, path.Child("vendorid")),
		Frequencies:     state(h.Frequencies, "frequencies"),
		ReEnlightenment: state(h.Reenlightenment, "reenlightenment"),
		TLBFlush:        g.renderTLBFlush(h.TLBFlush, path.Child("tlbflush")),
		IPI:             state(h.IPI, "ipi"),
		EVMCS:           state(h.EVMCS, "evmcs"),
	}
}

// renderSpinlocks requires retries, which stage 1 has set to KubeVirt's default.
func (g *guest) renderSpinlocks(f *v1.FeatureSpinlocks, path *field.Path) *libvirtxml.DomainFeatureHyperVSpinlocks {
	if f == nil {
		return nil
	}
	out := &libvirtxml.DomainFeatureHyperVSpinlocks{DomainFeatureState: *g.featureState(&f.FeatureState, path)}
	switch {
	case out.State == "off":
	case f.Retries == nil:
		g.addError(field.Required(path.Child("spinlocks"), ""))
	default:
		out.Retries = uint(*f.Retries)
	}
	return out
}

func (g *guest) renderSTimer(f *v1.SyNICTimer, path *field.Path) *libvirtxml.DomainFeatureHyperVSTimer {
	if f == nil {
		return nil
	}
	return &libvirtxml.DomainFeatureHyperVSTimer{DomainFeatureState: *g.featureState(&f.FeatureState, path),
		Direct: g.featureState(f.Direct, path.Child("direct"))}
}

func (g *guest) renderVendorID(f *v1.FeatureVendorID, path *field.Path) *libvirtxml.DomainFeatureHyperVVendorId {
	if f == nil {
		return nil
	}
	return &libvirtxml.DomainFeatureHyperVVendorId{DomainFeatureState: *g.featureState(&f.FeatureState, path), Value: f.VendorID}
}

func (g *guest) renderTLBFlush(f *v1.TLBFlush, path *field.Path) *libvirtxml.DomainFeatureHyperVTLBFlush {
	if f == nil {
		return nil
	}
	return &libvirtxml.DomainFeatureHyperVTLBFlush{
		DomainFeatureState: *g.featureState(&f.FeatureState, path),
		Direct:             g.featureState(f.Direct, path.Child("direct")),
		Extended:           g.featureState(f.Extended, path.Child("extended")),
	}
}
