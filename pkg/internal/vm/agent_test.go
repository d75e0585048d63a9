package vm

import (
	"testing"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestNeedsGuestAgent has each field that the agent carries out, and what is nearest to it.
func TestNeedsGuestAgent(t *testing.T) {
	withProbe := func(handler v1.Handler) v1.VirtualMachineInstanceSpec {
		return v1.VirtualMachineInstanceSpec{ReadinessProbe: &v1.Probe{Handler: handler}}
	}
	withKey := func(method v1.SSHPublicKeyAccessCredentialPropagationMethod) v1.VirtualMachineInstanceSpec {
		key := &v1.SSHPublicKeyAccessCredential{PropagationMethod: method}
		return v1.VirtualMachineInstanceSpec{AccessCredentials: []v1.AccessCredential{{}, {SSHPublicKey: key}}}
	}
	password := &v1.UserPasswordAccessCredential{}
	agentsPassword := &v1.UserPasswordAccessCredential{PropagationMethod: v1.UserPasswordAccessCredentialPropagationMethod{
		QemuGuestAgent: &v1.QemuGuestAgentUserPasswordAccessCredentialPropagation{}}}
	for _, test := range []struct {
		why  string
		spec v1.VirtualMachineInstanceSpec
		want bool
	}{
		{"nothing", v1.VirtualMachineInstanceSpec{}, false},
		{"a probe of a port", withProbe(v1.Handler{TCPSocket: &k8sv1.TCPSocketAction{}}), false},
		{"a probe by a command", withProbe(v1.Handler{Exec: &k8sv1.ExecAction{}}), true},
		{"a probe of the agent", withProbe(v1.Handler{GuestAgentPing: &v1.GuestAgentPing{}}), true},
		{"liveness", v1.VirtualMachineInstanceSpec{LivenessProbe: &v1.Probe{Handler: v1.Handler{GuestAgentPing: &v1.GuestAgentPing{}}}}, true},
		{"a key by cloud-init", withKey(v1.SSHPublicKeyAccessCredentialPropagationMethod{NoCloud: &v1.NoCloudSSHPublicKeyAccessCredentialPropagation{}}), false},
		{"a key by the agent", withKey(v1.SSHPublicKeyAccessCredentialPropagationMethod{QemuGuestAgent: &v1.QemuGuestAgentSSHPublicKeyAccessCredentialPropagation{}}),
			true},
		{"a password without a method", v1.VirtualMachineInstanceSpec{AccessCredentials: []v1.AccessCredential{{UserPassword: password}}}, false},
		{"a password by the agent", v1.VirtualMachineInstanceSpec{AccessCredentials: []v1.AccessCredential{{UserPassword: agentsPassword}}}, true},
	} {
		if got := NeedsGuestAgent(&test.spec); got != test.want {
			t.Errorf("%s: got %t", test.why, got)
		}
	}
}
