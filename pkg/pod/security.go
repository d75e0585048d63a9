package pod

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Fields: domain.launchSecurity; and what the pod may do. It is what profile restricted of Pod Security admits.

var securityEffects = []Effect{
	{"domain.launchSecurity.sev", Refused, lockedReason, func(g guest) []int {
		security := g.spec.Domain.LaunchSecurity
		return onlyIf(security != nil && security.SEV != nil && !g.LockedMemory)
	}},
	{"domain.launchSecurity.sev.attestation", Warned, "has no effect: nobody asks for the measurement; the guest stays paused", func(g guest) []int {
		security := g.spec.Domain.LaunchSecurity
		return onlyIf(security != nil && security.SEV != nil && security.SEV.Attestation != nil)
	}},
	{"domain.launchSecurity.snp", Refused, lockedReason, func(g guest) []int {
		security := g.spec.Domain.LaunchSecurity
		return onlyIf(security != nil && security.SNP != nil && !g.LockedMemory)
	}},
	{"domain.launchSecurity.tdx", Refused, "needs a socket of the node for quotes, which restricted pods have not", func(g guest) []int {
		security := g.spec.Domain.LaunchSecurity
		return onlyIf(security != nil && security.TDX != nil)
	}},
}

// account is the user ID of QEMU in KubeVirt's images: files in images and claims that were made for KubeVirt belong to it.
const account int64 = 107

// podSecurity returns the rights of all containers of the pod. fsGroup makes file systems writable for the account. It changes only those that are not yet
// writable, because changing each file of a large claim takes minutes.
func (g guest) podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsUser: new(account), RunAsGroup: new(account), FSGroup: new(account), RunAsNonRoot: new(true),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      g.seccompProfile(),
		Sysctls:             g.sysctls(),
	}
}

// sysctls lets passt, which has no capability, bind the guest's ports below 1024, such as SSH's. containerd 2 permits this to each pod, CRI-O does not.
func (g guest) sysctls() []corev1.Sysctl {
	if !g.usesPasst() {
		return nil
	}
	return []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
}

// seccompProfile returns the container runtime's profile, or the profile for passt, which makes namespaces for itself.
func (g guest) seccompProfile() *corev1.SeccompProfile {
	if g.usesPasst() {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new(v1alpha1.SeccompLauncher)}
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
