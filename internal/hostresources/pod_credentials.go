package hostresources

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// Credentials are what accessCredentials give to users of the guest by the guest agent.
type Credentials struct {
	// Keys are SSH public keys by the name of their user. A user without keys has an empty list: the agent removes the keys that the user had.
	Keys map[string][]string
	// Passwords by the name of their user.
	Passwords map[string]string
}

// NeedAgent reports whether a VMI has accessCredentials for the guest agent.
func NeedAgent(vmi *v1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Spec.AccessCredentials, func(one v1.AccessCredential) bool {
		return one.UserPassword != nil || one.SSHPublicKey != nil && one.SSHPublicKey.PropagationMethod.QemuGuestAgent != nil
	})
}

// Credentials reads the accessCredentials for the guest agent from the Secrets that are mounted into the pod. kubelet updates the files when a Secret changes.
// If two Secrets have a password for a user, the later one counts, as in KubeVirt.
func (p *Pod) Credentials(vmi *v1.VirtualMachineInstance) (Credentials, error) {
	found := Credentials{Keys: map[string][]string{}, Passwords: map[string]string{}}
	for i := range vmi.Spec.AccessCredentials {
		one := &vmi.Spec.AccessCredentials[i]
		if key := one.SSHPublicKey; key != nil && key.PropagationMethod.QemuGuestAgent != nil {
			keys, err := p.publicKeys(vmi, key)
			if err != nil {
				return found, err
			}
			for _, user := range key.PropagationMethod.QemuGuestAgent.Users {
				found.Keys[user] = append(found.Keys[user], keys...)
			}
		}
		if password := one.UserPassword; password != nil && password.Source.Secret != nil {
			files, err := p.credentialFiles(vmi, password.Source.Secret.SecretName)
			if err != nil {
				return found, err
			}
			for user, text := range files {
				if text = strings.TrimSpace(text); text != "" {
					found.Passwords[user] = text
				}
			}
		}
	}
	return found, nil
}

// cloudInitKeys returns the SSH keys for the cloud-init volume of the VMI: of a configDrive, or of a noCloud volume.
func (p *Pod) cloudInitKeys(vmi *v1.VirtualMachineInstance, configDrive bool) (map[string]string, error) {
	keys := map[string]string{}
	for i := range vmi.Spec.AccessCredentials {
		key := vmi.Spec.AccessCredentials[i].SSHPublicKey
		if key == nil {
			continue
		}
		if method := key.PropagationMethod; configDrive && method.ConfigDrive == nil || !configDrive && method.NoCloud == nil {
			continue
		}
		some, err := p.publicKeys(vmi, key)
		if err != nil {
			return nil, err
		}
		for _, one := range some {
			keys[strconv.Itoa(len(keys))] = one
		}
	}
	return keys, nil
}

// publicKeys returns the keys of a credential in the order of the files' names: each line that is neither empty nor a comment, which the agent refuses.
func (p *Pod) publicKeys(vmi *v1.VirtualMachineInstance, of *v1.SSHPublicKeyAccessCredential) (keys []string, err error) {
	if of.Source.Secret == nil { // admission refuses it
		return nil, nil
	}
	files, err := p.credentialFiles(vmi, of.Source.Secret.SecretName)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for line := range strings.Lines(files[name]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				keys = append(keys, line)
			}
		}
	}
	return keys, nil
}

// credentialFiles reads the values of a Secret of accessCredentials by their keys.
func (p *Pod) credentialFiles(vmi *v1.VirtualMachineInstance, secret string) (map[string]string, error) {
	name := fmt.Sprintf("Secret '%s' of accessCredentials", secret)
	tree, err := openMount(p.path(pod.CredentialPath(slices.Index(pod.CredentialSecrets(&vmi.Spec), secret))), name)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	files := map[string]string{}
	return files, tree.collectFiles(".", files)
}
