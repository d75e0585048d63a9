package vm

import v1 "kubevirt.io/api/core/v1"

// NeedsGuestAgent reports whether a field of the spec has no effect without the guest agent: a probe or a credential that the agent carries out.
func NeedsGuestAgent(spec *v1.VirtualMachineInstanceSpec) bool {
	for _, probe := range []*v1.Probe{spec.LivenessProbe, spec.ReadinessProbe} {
		if probe != nil && (probe.Exec != nil || probe.GuestAgentPing != nil) {
			return true
		}
	}
	for _, credential := range spec.AccessCredentials {
		key, password := credential.SSHPublicKey, credential.UserPassword
		if key != nil && key.PropagationMethod.QemuGuestAgent != nil || password != nil && password.PropagationMethod.QemuGuestAgent != nil {
			return true
		}
	}
	return false
}
