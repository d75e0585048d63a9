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

// Bounds of the accessCredentials of a VMI, so that the launcher does not run out of memory: a Secret of 1 MiB may be given to thousands of users.
const (
	// maxCredentials bounds the keys and passwords, each counted once for each user.
	maxCredentials = 10_000
	// maxCredentialBytes bounds the content of all Secrets.
	maxCredentialBytes = 8 << 20
)

// Credentials reads the accessCredentials for the guest agent from the Secrets that are mounted into the pod. kubelet updates the files when a Secret changes.
// If two Secrets have a password for a user, the later one counts, as in KubeVirt.
func (p *Pod) Credentials(vmi *v1.VirtualMachineInstance) (Credentials, error) {
	found, given, secrets := Credentials{Keys: map[string][]string{}, Passwords: map[string]string{}}, 0, p.credentialSecrets(vmi)
	for i := range vmi.Spec.AccessCredentials {
		one := &vmi.Spec.AccessCredentials[i]
		if key := one.SSHPublicKey; key != nil && key.PropagationMethod.QemuGuestAgent != nil {
			keys, err := secrets.publicKeys(key)
			if err != nil {
				return found, err
			}
			users := key.PropagationMethod.QemuGuestAgent.Users
			if given += len(keys) * len(users); given > maxCredentials {
				return found, errTooManyCredentials
			}
			for _, user := range users {
				found.Keys[user] = append(found.Keys[user], keys...)
			}
		}
		if password := one.UserPassword; password != nil && password.Source.Secret != nil {
			files, err := secrets.files(password.Source.Secret.SecretName)
			if err != nil {
				return found, err
			}
			if given += len(files); given > maxCredentials {
				return found, errTooManyCredentials
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

var errTooManyCredentials = fmt.Errorf("accessCredentials give users more than %d keys and passwords", maxCredentials)

// cloudInitKeys returns the SSH keys for the cloud-init volume of the VMI: of a configDrive, or of a noCloud volume.
func (p *Pod) cloudInitKeys(vmi *v1.VirtualMachineInstance, configDrive bool) (map[string]string, error) {
	keys, secrets := map[string]string{}, p.credentialSecrets(vmi)
	for i := range vmi.Spec.AccessCredentials {
		key := vmi.Spec.AccessCredentials[i].SSHPublicKey
		if key == nil {
			continue
		}
		if method := key.PropagationMethod; configDrive && method.ConfigDrive == nil || !configDrive && method.NoCloud == nil {
			continue
		}
		some, err := secrets.publicKeys(key)
		if err != nil {
			return nil, err
		}
		if len(keys)+len(some) > maxCredentials {
			return nil, errTooManyCredentials
		}
		for _, one := range some {
			keys[strconv.Itoa(len(keys))] = one
		}
	}
	return keys, nil
}

// credentialSecrets are the mounted Secrets of the accessCredentials of a VMI. Each is read once.
type credentialSecrets struct {
	*Pod
	// names are the Secrets in the order of their folders.
	names []string
	read  map[string]map[string]string
	bytes int
}

func (p *Pod) credentialSecrets(vmi *v1.VirtualMachineInstance) *credentialSecrets {
	return &credentialSecrets{Pod: p, names: pod.CredentialSecrets(&vmi.Spec), read: map[string]map[string]string{}}
}

// publicKeys returns the keys of a credential in the order of the files' names: each line that is neither empty nor a comment, which the agent refuses.
func (s *credentialSecrets) publicKeys(of *v1.SSHPublicKeyAccessCredential) (keys []string, err error) {
	if of.Source.Secret == nil { // admission refuses it
		return nil, nil
	}
	files, err := s.files(of.Source.Secret.SecretName)
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

// files returns the values of a Secret by their keys.
func (s *credentialSecrets) files(secret string) (map[string]string, error) {
	if files, known := s.read[secret]; known {
		return files, nil
	}
	tree, err := openMount(s.path(pod.CredentialPath(slices.Index(s.names, secret))), fmt.Sprintf("Secret '%s' of accessCredentials", secret))
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	files := map[string]string{}
	if err := tree.collectFiles(".", files); err != nil {
		return nil, err
	}
	for _, content := range files {
		s.bytes += len(content)
	}
	if s.bytes > maxCredentialBytes {
		return nil, fmt.Errorf("the Secrets of accessCredentials have more than %d bytes", maxCredentialBytes)
	}
	s.read[secret] = files
	return files, nil
}
