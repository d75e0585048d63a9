package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Kinds of references.
const (
	KindSecret         = "Secret"
	KindConfigMap      = "ConfigMap"
	KindServiceAccount = "ServiceAccount"
)

// Reference is an object of the VMI's namespace without which Kubernetes does not start the container of a guest.
type Reference struct {
	Kind, Name string
	// At is the field of the VMI that names the object.
	At *field.Path
}

// RuleReferenceMissing is the origin of errors about references to objects that do not exist.
const RuleReferenceMissing = "pod/reference-missing"

// Missing returns the error of a reference to an object that does not exist.
func (r Reference) Missing() *field.Error {
	err := field.NotFound(r.At, r.Name)
	err.Detail = fmt.Sprintf("no %s '%.253s' in this namespace: create it", r.Kind, r.Name)
	return err.WithOrigin(RuleReferenceMissing)
}

// References returns the Secrets, ConfigMaps and the ServiceAccount of a VMI's pod, in the order of the fields, each once. It leaves out objects that Kiln
// makes itself, optional ones, and the claims of volumes, which are in Input.Claims.
func References(vmi *v1.VirtualMachineInstance) (all []Reference) {
	known := map[Reference]bool{}
	add := func(kind, name string, at *field.Path) {
		made := kind == KindServiceAccount && name == Name(vmi.Name)
		if key := (Reference{Kind: kind, Name: name}); name != "" && !made && !known[key] {
			known[key] = true
			all = append(all, Reference{kind, name, at})
		}
	}
	spec := field.NewPath("spec")
	for i := range vmi.Spec.Volumes {
		referencesOfVolume(&vmi.Spec.Volumes[i], spec.Child("volumes").Index(i), add)
	}
	VisitCredentialSecrets(&vmi.Spec, spec, func(_ int, name string, at *field.Path) { add(KindSecret, name, at) })
	if vmi.Spec.ServiceAccountName != "" {
		add(KindServiceAccount, vmi.Spec.ServiceAccountName, spec.Child("serviceAccountName"))
	}
	return all
}

// referencesOfVolume adds what kubelet must find for a volume, as files and cloudInit mount it.
func referencesOfVolume(v *v1.Volume, at *field.Path, add func(kind, name string, at *field.Path)) {
	required := func(optional *bool) bool { return optional == nil || !*optional }
	switch {
	case v.ConfigMap != nil && required(v.ConfigMap.Optional):
		add(KindConfigMap, v.ConfigMap.Name, at.Child("configMap", "name"))
	case v.Secret != nil && required(v.Secret.Optional):
		add(KindSecret, v.Secret.SecretName, at.Child("secret", "secretName"))
	case v.ServiceAccount != nil:
		add(KindServiceAccount, v.ServiceAccount.ServiceAccountName, at.Child("serviceAccount", "serviceAccountName"))
	case v.Sysprep != nil && v.Sysprep.Secret != nil:
		add(KindSecret, v.Sysprep.Secret.Name, at.Child("sysprep", "secret", "name"))
	case v.Sysprep != nil && v.Sysprep.ConfigMap != nil:
		add(KindConfigMap, v.Sysprep.ConfigMap.Name, at.Child("sysprep", "configMap", "name"))
	case v.CloudInitNoCloud != nil:
		addSecretsOfCloudInit(v.CloudInitNoCloud.UserDataSecretRef, v.CloudInitNoCloud.NetworkDataSecretRef, at.Child("cloudInitNoCloud"), add)
	case v.CloudInitConfigDrive != nil:
		addSecretsOfCloudInit(v.CloudInitConfigDrive.UserDataSecretRef, v.CloudInitConfigDrive.NetworkDataSecretRef, at.Child("cloudInitConfigDrive"), add)
	}
}

func addSecretsOfCloudInit(user, network *corev1.LocalObjectReference, at *field.Path, add func(kind, name string, at *field.Path)) {
	if user != nil {
		add(KindSecret, user.Name, at.Child("secretRef", "name"))
	}
	if network != nil {
		add(KindSecret, network.Name, at.Child("networkDataSecretRef", "name"))
	}
}
