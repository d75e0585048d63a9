package frontend

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// Owns spec.domain.launchSecurity, and what encrypted memory requires of virtio devices: DMA only through the IOMMU, no option ROMs.
// The position of the C-bit and the quoting service are the host's.
// KubeVirt: converter/compute/launch_security.go and launchsecurity/sev.go. libvirt: "Launch Security".

// Bits of the guest policies in AMD's SEV and SNP specifications. The policy is part of what the guest's owner attests, so it must not change.

const (
	sevNoDebug = 0x1     // the host may not debug the guest; always set, as the API documents
	sevES      = 0x4     // registers are encrypted too
	snpPolicy  = 0x30000 // bit 17 must be one, bit 16 allows SMT
)

func (g *guest) renderLaunchSecurity() *libvirtxml.DomainLaunchSecurity {
	s := g.spec.Domain.LaunchSecurity
	if s == nil || g.spec.Architecture == "s390x" {
		// On s390x the guest's image asks for Secure Execution itself; its devices differ, see virtioIOMMU.
		return nil
	}
	path := g.path.Child("launchSecurity")
	if g.spec.Architecture != "amd64" {
		g.addError(field.Forbidden(path, "architecture '"+g.spec.Architecture+"' does not support it"))
		return nil
	}
	switch {
	case s.SNP != nil:
		policy := uint64(snpPolicy)
		return &libvirtxml.DomainLaunchSecurity{SEVSNP: &libvirtxml.DomainLaunchSecuritySEVSNP{Policy: &policy}}
	case s.TDX != nil:
		return &libvirtxml.DomainLaunchSecurity{TDX: &libvirtxml.DomainLaunchSecurityTDX{}}
	case s.SEV != nil:
		policy := uint(sevNoDebug)
		if p := s.SEV.Policy; p != nil && ptr.Deref(p.EncryptedState, false) {
			policy |= sevES
		}
		return &libvirtxml.DomainLaunchSecurity{SEV: &libvirtxml.DomainLaunchSecuritySEV{Policy: &policy, DHCert: s.SEV.DHCert, Session: s.SEV.Session}}
	}
	g.addError(field.Required(path, "one of sev, snp or tdx must be set"))
	return nil
}

// hasEncryptedMemory reports whether devices can reach the guest's memory only through the IOMMU. On s390x launchSecurity is Secure Execution. TDX is not among
// them, as in KubeVirt.
func (g *guest) hasEncryptedMemory() bool {
	s := g.spec.Domain.LaunchSecurity
	return s != nil && (s.SEV != nil || s.SNP != nil || g.spec.Architecture == "s390x")
}

// virtioIOMMU returns the attribute iommu of virtio drivers. libvirt: "Virtio-related options".
func (g *guest) virtioIOMMU() string {
	if g.hasEncryptedMemory() {
		return "on"
	}
	return ""
}
