package pod

import (
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: accessCredentials. kubelet mounts their Secrets, and updates the files when a Secret changes.

// CredentialSecrets returns the names of the Secrets of accessCredentials, each once, in the order of the credentials.
func CredentialSecrets(spec *v1.VirtualMachineInstanceSpec) (names []string) {
	VisitCredentialSecrets(spec, nil, func(_ int, name string, _ *field.Path) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// VisitCredentialSecrets visits each Secret of accessCredentials that has a name: the index of its credential, the name, and the path of the name. at is the
// path of the spec.
func VisitCredentialSecrets(spec *v1.VirtualMachineInstanceSpec, at *field.Path, visit func(i int, name string, at *field.Path)) {
	for i := range spec.AccessCredentials {
		of, at := &spec.AccessCredentials[i], at.Child("accessCredentials").Index(i)
		if key := of.SSHPublicKey; key != nil && key.Source.Secret != nil && key.Source.Secret.SecretName != "" {
			visit(i, key.Source.Secret.SecretName, at.Child("sshPublicKey", "source", "secret", "secretName"))
		}
		if password := of.UserPassword; password != nil && password.Source.Secret != nil && password.Source.Secret.SecretName != "" {
			visit(i, password.Source.Secret.SecretName, at.Child("userPassword", "source", "secret", "secretName"))
		}
	}
}

// CredentialPath returns the folder of a Secret of accessCredentials by its position in CredentialSecrets: the name of a Secret may be longer than a file's.
func CredentialPath(position int) string { return path.Join(credentials, strconv.Itoa(position)) }

// mountCredentials mounts the Secrets of accessCredentials.
func (g guest) mountCredentials(m *mounted) {
	for i, secret := range CredentialSecrets(g.spec) {
		m.addVolume(corev1.Volume{Name: volumeName("credential", strconv.Itoa(i)), VolumeSource: secretSource(secret)},
			corev1.VolumeMount{MountPath: CredentialPath(i), ReadOnly: true})
	}
}
