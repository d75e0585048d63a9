package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: accessCredentials.
// A credential is an SSH key or a password. It has one source and one propagation method, and a method that uses cloud-init has a
// cloud-init volume.
// KubeVirt has the rules in validateAccessCredentials, which counts sources and methods and reports the list, not the field that lacks.

var credentialRules = []guestRule{
	{accessCredentials, []Rule{
		{Name: "security/credential-kinds"},
		{Name: "security/credential-kind"},
		{Name: "security/password-source"},
		{Name: "security/password-method"},
		{Name: "security/key-source"},
		{Name: "security/key-volume"},
		{Name: "security/key-users"},
		{Name: "security/key-method"},
		{Name: "security/credential-secret", KubeVirt: KubeVirtAdmits},
	}},
}

// accessCredentials: the guest agent is the only method by which a password can be set.
func accessCredentials(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i, credential := range spec.AccessCredentials {
		at := path.Child("accessCredentials").Index(i)
		switch key, password := credential.SSHPublicKey, credential.UserPassword; {
		case key != nil && password != nil:
			errs = append(errs, field.Forbidden(at.Child("userPassword"),
				"cannot be combined with sshPublicKey: make it a separate credential").WithOrigin("security/credential-kinds"))
		case key == nil && password == nil:
			errs = append(errs, field.Required(at, "give sshPublicKey or userPassword").WithOrigin("security/credential-kind"))
		}
		if credential.SSHPublicKey != nil {
			errs = append(errs, sshKey(spec, credential.SSHPublicKey, at.Child("sshPublicKey"))...)
		}
		if password := credential.UserPassword; password != nil {
			at := at.Child("userPassword")
			errs = append(errs, credentialSecret(password.Source.Secret, at)...)
			if password.Source.Secret == nil {
				errs = append(errs, field.Required(at.Child("source", "secret"), "name the secret that holds the passwords").WithOrigin("security/password-source"))
			}
			if password.PropagationMethod.QemuGuestAgent == nil {
				errs = append(errs, field.Required(at.Child("propagationMethod", "qemuGuestAgent"),
					"passwords are set through the guest agent").WithOrigin("security/password-method"))
			}
		}
	}
	return errs
}

// sshKey: noCloud and configDrive write the keys into the cloud-init volume of the VMI, so there must be one. The guest agent writes
// them into the home of each user, so it needs their names.
func sshKey(spec *v1.VirtualMachineInstanceSpec, key *v1.SSHPublicKeyAccessCredential, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, credentialSecret(key.Source.Secret, path)...)
	if key.Source.Secret == nil {
		errs = append(errs, field.Required(path.Child("source", "secret"), "name the secret that holds the keys").WithOrigin("security/key-source"))
	}
	// A method that is set counts even where it cannot work, so that its mistake is reported once.
	method, at := key.PropagationMethod, path.Child("propagationMethod")
	given := 0
	for _, way := range []struct {
		name, volume string
		set          bool
		carrier      func(v1.Volume) bool
	}{
		{"noCloud", "cloudInitNoCloud", method.NoCloud != nil, func(v v1.Volume) bool { return v.CloudInitNoCloud != nil }},
		{"configDrive", "cloudInitConfigDrive", method.ConfigDrive != nil, func(v v1.Volume) bool { return v.CloudInitConfigDrive != nil }},
	} {
		if !way.set {
			continue
		}
		given++
		if !anyVolume(spec, way.carrier) {
			errs = append(errs, field.Invalid(at.Child(way.name), "", "needs a volume of type "+way.volume).WithOrigin("security/key-volume"))
		}
	}
	if method.QemuGuestAgent != nil {
		given++
		if len(method.QemuGuestAgent.Users) == 0 {
			errs = append(errs, field.Required(at.Child("qemuGuestAgent", "users"), "name at least one user who gets the keys").WithOrigin("security/key-users"))
		}
	}
	// Without a method the keys would reach no user.
	if given != 1 {
		errs = append(errs, field.Invalid(at, given, "must be exactly one of configDrive, noCloud and qemuGuestAgent").WithOrigin("security/key-method"))
	}
	return errs
}

// credentialSecret judges the name of the Secret of a credential. No Secret can have another name, and the pod of the VMI would wait without end.
func credentialSecret(secret *v1.AccessCredentialSecretSource, credential *field.Path) field.ErrorList {
	at := credential.Child("source", "secret", "secretName")
	switch {
	case secret == nil: // another rule judges it
		return nil
	case secret.SecretName == "":
		return field.ErrorList{field.Required(at, "name the Secret of the credential").WithOrigin("security/credential-secret")}
	case len(validation.IsDNS1123Subdomain(secret.SecretName)) > 0:
		return named(at, secret.SecretName, validation.IsDNS1123Subdomain).WithOrigin("security/credential-secret")
	}
	return nil
}

// anyVolume reports whether the VMI has a volume of a type.
func anyVolume(spec *v1.VirtualMachineInstanceSpec, is func(v1.Volume) bool) bool {
	for _, volume := range spec.Volumes {
		if is(volume) {
			return true
		}
	}
	return false
}
