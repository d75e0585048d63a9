package validate

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.features, and the vmx feature of domain.cpu, which evmcs needs.
// A Hyper-V feature that is on needs others, which mutate enables unless they are set. hypervPassthrough takes all of the host's features, so
// it excludes hyperv.
// KubeVirt has the dependencies in ValidateVirtualMachineInstanceHypervFeatureDependencies and the exclusion in
// ValidateVirtualMachineInstanceHypervMode. It applies them to VMIs only.

var featureRules = []guestRule{
	{featuresOfPCs, []Rule{
		{Name: "features/architecture", KubeVirt: KubeVirtAdmits, MendedBy: byPreference, NamesArchitecture: true},
	}},
	{hyperv, []Rule{
		{Name: "features/hyperv-needs", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byPreference},
	}},
	{hypervPassthrough, []Rule{
		{Name: "features/hyperv-passthrough-enabled", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "features/hyperv-passthrough-alone", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
	}},
	{hypervValues, []Rule{
		{Name: "features/hyperv-spinlocks", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "features/hyperv-vendor-id", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
	}},
	{enlightenedVMCS, []Rule{
		{Name: "features/evmcs-vmx", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byPreference},
		{Name: "features/evmcs-vmx-policy", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
	}},
}

// featuresOfPCs refuses x86 features on other architectures. A feature that is off is legal everywhere.
// KubeVirt accepts them, and libvirt or QEMU refuses the domain or leaves them out.
func featuresOfPCs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	f := spec.Domain.Features
	if f == nil || spec.Architecture != arm64 && spec.Architecture != s390x {
		return nil
	}
	path = path.Child("domain", "features")
	forbid := func(at *field.Path) {
		errs = append(errs, field.Forbidden(at, "architecture '"+spec.Architecture+"' has no such feature: remove it").WithOrigin("features/architecture"))
	}
	if f.APIC != nil && f.APIC.EndOfInterrupt {
		forbid(path.Child("apic", "endOfInterrupt"))
	}
	if f.Pvspinlock != nil {
		forbid(path.Child("pvspinlock"))
	}
	if f.Hyperv != nil && *f.Hyperv != (v1.FeatureHyperv{}) {
		forbid(path.Child("hyperv"))
	}
	if f.HypervPassthrough != nil && ptr.Deref(f.HypervPassthrough.Enabled, false) {
		forbid(path.Child("hypervPassthrough"))
	}
	return errs
}

// hyperv states each dependency once; mutate has the same list, by which it enables what is missing. An error therefore means that the
// user disabled it.
func hyperv(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Domain.Features == nil || spec.Domain.Features.Hyperv == nil {
		return nil
	}
	h := spec.Domain.Features.Hyperv
	path = path.Child("domain", "features", "hyperv")
	var flush, timer *v1.FeatureState
	if h.TLBFlush != nil {
		flush = &h.TLBFlush.FeatureState
	}
	if h.SyNICTimer != nil {
		timer = &h.SyNICTimer.FeatureState
	}
	for _, need := range []struct {
		name     string
		state    *v1.FeatureState
		needs    string
		required *v1.FeatureState
	}{
		{"evmcs", h.EVMCS, "vapic", h.VAPIC},
		{"ipi", h.IPI, "vpindex", h.VPIndex},
		{"tlbflush", flush, "vpindex", h.VPIndex},
		{"synictimer", timer, "synic", h.SyNIC},
		{"synic", h.SyNIC, "vpindex", h.VPIndex},
	} {
		if isOn(need.state) && !isOn(need.required) {
			errs = append(errs, field.Invalid(path.Child(need.name), true,
				fmt.Sprintf("needs '%s', which is off: enable it, or disable '%s'", need.needs, need.name)).WithOrigin("features/hyperv-needs"))
		}
	}
	return errs
}

// isOn reports whether a feature is on explicitly, as in every explicit guest.
func isOn(state *v1.FeatureState) bool { return state != nil && ptr.Deref(state.Enabled, false) }

// KubeVirt accepts hypervPassthrough without enabled, and panics when it renders the VMI.
func hypervPassthrough(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	features := spec.Domain.Features
	if features == nil || features.HypervPassthrough == nil {
		return nil
	}
	path = path.Child("domain", "features")
	if features.HypervPassthrough.Enabled == nil {
		errs = append(errs, field.Required(path.Child("hypervPassthrough", "enabled"), "must be 'true' or 'false'").WithOrigin("features/hyperv-passthrough-enabled"))
	}
	if features.Hyperv != nil {
		errs = append(errs, field.Forbidden(path.Child("hyperv"),
			"cannot be combined with hypervPassthrough: remove one of them").WithOrigin("features/hyperv-passthrough-alone"))
	}
	return errs
}

// libvirt's limits: the least number of attempts before the guest notifies the hypervisor that it waits for a lock, and the twelve bytes
// that CPUID has for the vendor.
const (
	minSpinlocks = 4095
	maxVendorID  = 12
)

// hypervValues has no counterpart in KubeVirt; libvirt refuses these values when it defines the domain.
func hypervValues(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Domain.Features == nil || spec.Domain.Features.Hyperv == nil {
		return nil
	}
	h := spec.Domain.Features.Hyperv
	path = path.Child("domain", "features", "hyperv")
	if s := h.Spinlocks; s != nil && ptr.Deref(s.Enabled, true) && s.Retries != nil && *s.Retries < minSpinlocks {
		errs = append(errs, field.Invalid(path.Child("spinlocks", "spinlocks"), *s.Retries,
			fmt.Sprintf("must be at least %d", minSpinlocks)).WithOrigin("features/hyperv-spinlocks"))
	}
	if v := h.VendorID; v != nil && ptr.Deref(v.Enabled, true) {
		at := path.Child("vendorid", "vendorid")
		switch {
		case v.VendorID == "":
			errs = append(errs, field.Required(at, "give a text of 1 to 12 bytes, or remove vendorid").WithOrigin("features/hyperv-vendor-id"))
		case len(v.VendorID) > maxVendorID:
			errs = append(errs, field.TooLong(at, v.VendorID, maxVendorID).WithOrigin("features/hyperv-vendor-id"))
		case strings.ContainsFunc(v.VendorID, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }):
			errs = append(errs, field.Invalid(at, v.VendorID, "must have no comma and no control character").WithOrigin("features/hyperv-vendor-id"))
		}
	}
	return errs
}

// enlightenedVMCS requires CPU feature vmx, because it serves a nested Hyper-V. mutate adds the feature; a policy that disables it is the
// user's.
// KubeVirt sets the policy to 'require' without a word; here the value that the user wrote stays, and is refused.
func enlightenedVMCS(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	features, cpu := spec.Domain.Features, spec.Domain.CPU
	if features == nil || features.Hyperv == nil || !isEnabled(features.Hyperv.EVMCS) {
		return nil
	}
	at := path.Child("domain", "cpu")
	if cpu == nil {
		return field.ErrorList{field.Required(at, "hyperv.evmcs needs CPU feature 'vmx'").WithOrigin("features/evmcs-vmx")}
	}
	if at = at.Child("features"); len(cpu.Features) == 0 {
		return field.ErrorList{field.Required(at, "hyperv.evmcs needs CPU feature 'vmx'").WithOrigin("features/evmcs-vmx")}
	}
	for i, feature := range cpu.Features {
		if feature.Name == "vmx" && feature.Policy != "require" {
			errs = append(errs, field.Invalid(at.Index(i).Child("policy"), feature.Policy,
				"must be 'require' for 'vmx': hyperv.evmcs needs it").WithOrigin("features/evmcs-vmx-policy"))
		}
	}
	return errs
}
