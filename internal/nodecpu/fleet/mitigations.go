package fleet

import (
	"slices"

	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// mitigations are the features by which a guest's kernel works around flaws of speculative execution, or learns that its CPU lacks a flaw. The names are
// libvirt's: src/cpu_map/x86_features.xml, and the models of src/cpu_map up to DiamondRapids and EPYC-Turin. Linux' Documentation/admin-guide/hw-vuln says what
// they are for. Features that only report a flaw, such as rsba, are left out.
var mitigations = []string{
	// Intel, CPUID 7.
	"arch-capabilities", "bhi-ctrl", "ddpd-u", "flush-l1d", "intel-psfd", "ipred-ctrl", "mcdt-no", "md-clear", "rrsba-ctrl", "spec-ctrl", "ssbd", "stibp",
	// Intel, MSR IA32_ARCH_CAPABILITIES.
	"bhi-no", "fb-clear", "fbsdp-no", "gds-no", "ibrs-all", "its-no", "mds-no", "pbrsb-no", "pschange-mc-no", "psdp-no", "rdctl-no", "rfds-clear", "rfds-no",
	"sbdr-ssdp-no", "skip-l1dfl-vmentry", "ssb-no", "taa-no", "tsx-ctrl",
	// AMD, CPUID 80000008 and 80000021.
	"amd-no-ssb", "amd-psfd", "amd-ssbd", "amd-stibp", "auto-ibrs", "ibpb", "ibpb-brtype", "ibrs", "lfence-always-serializing", "sbpb", "srso-no",
	"srso-user-kernel-no", "stibp-always-on", "tsa-l1-no", "tsa-sq-no", "verw-clear", "virt-ssbd",
}

// lackedMitigations returns the mitigations that each offer has and the recorded CPU lacks, sorted. Only a CPU that was recorded for host-model lists all its
// features: what a named model implies is not known here.
func lackedMitigations(offers []nodecpu.Offer, recorded *record.CPU) (lacked []string) {
	if recorded.Requested != v1.CPUModeHostModel || len(offers) == 0 {
		return nil
	}
	for _, name := range mitigations {
		_, has := slices.BinarySearch(recorded.Features, name)
		if !has && !slices.ContainsFunc(offers, func(o nodecpu.Offer) bool { return !o.Features[name] }) {
			lacked = append(lacked, name)
		}
	}
	slices.Sort(lacked)
	return lacked
}
