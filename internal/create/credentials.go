package create

import (
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// This file sets spec.template.spec.accessCredentials. The keys and passwords remain in Secrets; the manifest contains only the names of the Secrets.

const credentialFlag = "access-cred"

// guestAgent is the method by which the guest agent writes keys or a password into a running guest.
const guestAgent = "ga"

// addCredentials adds the access credentials. If a method needs cloud-init or the guest agent, it sets the flag that the user did not give.
func (b *vmBuilder) addCredentials() error {
	for _, text := range b.AccessCred {
		p, err := parseParameters(credentialFlag, text, "type", "src", "method", "user")
		if err != nil {
			return err
		}
		secret, err := p.localName("src")
		if err != nil {
			return err
		}
		var credential v1.AccessCredential
		switch kind := strings.ToLower(p.values["type"]); kind {
		case "", "ssh":
			credential.SSHPublicKey, err = b.sshCredential(p, secret)
		case "password":
			credential.UserPassword, err = passwordCredential(p, secret)
		default:
			err = flagError(credentialFlag, "type '%s' must be 'ssh' or 'password'", kind)
		}
		if err != nil {
			return err
		}
		b.vmiSpec().AccessCredentials = append(b.vmiSpec().AccessCredentials, credential)
	}
	return nil
}

// sshCredential is virtctl's withAccessCredentialSSH. The guest agent writes the keys of a named user, and cloud-init the keys of its default user.
func (b *vmBuilder) sshCredential(p parameters, secret string) (*v1.SSHPublicKeyAccessCredential, error) {
	credential := &v1.SSHPublicKeyAccessCredential{
		Source: v1.SSHPublicKeyAccessCredentialSource{Secret: &v1.AccessCredentialSecretSource{SecretName: secret}},
	}
	method, user := strings.ToLower(p.values["method"]), p.values["user"]
	switch method {
	case "", guestAgent:
		if user == "" {
			user = b.User
		}
		if user == "" {
			return nil, flagError(p.flag, "the guest agent needs a user: give user:NAME or --user")
		}
		// User data in base64 is used unchanged: it must itself allow the agent to write keys.
		b.GAManageSSH = b.GAManageSSH || !b.GAManageSSHGiven && b.CloudInitUserData == ""
		credential.PropagationMethod.QemuGuestAgent = &v1.QemuGuestAgentSSHPublicKeyAccessCredentialPropagation{Users: []string{user}}
		return credential, nil
	case noCloud:
		credential.PropagationMethod.NoCloud = &v1.NoCloudSSHPublicKeyAccessCredentialPropagation{}
	case configDrive:
		credential.PropagationMethod.ConfigDrive = &v1.ConfigDriveSSHPublicKeyAccessCredentialPropagation{}
	default:
		return nil, flagError(p.flag, "method '%s' must be '%s', '%s' or '%s'", method, guestAgent, noCloud, configDrive)
	}
	if user != "" {
		return nil, flagError(p.flag, "user '%s' has no effect with method '%s': cloud-init writes the keys of its own user", user, method)
	}
	if !b.CloudInitChanged {
		b.CloudInit, b.CloudInitChanged = method, true
	}
	if !strings.EqualFold(b.CloudInit, method) {
		return nil, flagError(p.flag, "method '%s' needs --cloud-init=%s, not '%s'", method, method, b.CloudInit)
	}
	return credential, nil
}

// passwordCredential is virtctl's withAccessCredentialPassword. Only the guest agent can change a password; the keys of the Secret are users.
func passwordCredential(p parameters, secret string) (*v1.UserPasswordAccessCredential, error) {
	if method := strings.ToLower(p.values["method"]); method != "" && method != guestAgent {
		return nil, flagError(p.flag, "method '%s' must be '%s' for a password", method, guestAgent)
	}
	if p.values["user"] != "" {
		return nil, flagError(p.flag, "user has no effect for a password: the keys of the secret are the users")
	}
	return &v1.UserPasswordAccessCredential{
		Source:            v1.UserPasswordAccessCredentialSource{Secret: &v1.AccessCredentialSecretSource{SecretName: secret}},
		PropagationMethod: v1.UserPasswordAccessCredentialPropagationMethod{QemuGuestAgent: &v1.QemuGuestAgentUserPasswordAccessCredentialPropagation{}},
	}, nil
}
