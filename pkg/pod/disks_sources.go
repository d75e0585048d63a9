package pod

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: volumes of all types but claims.

// fileSource returns the source of the pod's volume for a volume of files; nil for another type. The launcher makes an image of the files for the guest's disk.
func fileSource(v *v1.Volume) *corev1.VolumeSource {
	switch {
	case v.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Optional: v.ConfigMap.Optional}}
	case v.Secret != nil:
		return &corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.Secret.SecretName, Optional: v.Secret.Optional}}
	case v.DownwardAPI != nil:
		return &corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: v.DownwardAPI.Fields}}
	case v.ServiceAccount != nil:
		return new(accountFiles())
	case v.Sysprep != nil && v.Sysprep.Secret != nil:
		return new(secretSource(v.Sysprep.Secret.Name))
	case v.Sysprep != nil && v.Sysprep.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *v.Sysprep.ConfigMap}}
	}
	return nil
}

func secretSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
}

// addCloudInit mounts the Secrets of a cloud-init volume. Data that the VMI itself has needs no volume.
func (m *mounted) addCloudInit(v *v1.Volume) {
	var user, network *corev1.LocalObjectReference
	if data := v.CloudInitNoCloud; data != nil {
		user, network = data.UserDataSecretRef, data.NetworkDataSecretRef
	}
	if data := v.CloudInitConfigDrive; data != nil {
		user, network = cmp.Or(user, data.UserDataSecretRef), cmp.Or(network, data.NetworkDataSecretRef)
	}
	if user != nil {
		m.addVolume(corev1.Volume{Name: volumeName("userdata", v.Name), VolumeSource: secretSource(user.Name)},
			corev1.VolumeMount{MountPath: UserDataPath(v.Name), ReadOnly: true})
	}
	if network != nil {
		m.addVolume(corev1.Volume{Name: volumeName("networkdata", v.Name), VolumeSource: secretSource(network.Name)},
			corev1.VolumeMount{MountPath: NetworkDataPath(v.Name), ReadOnly: true})
	}
}

// tokenSeconds is how long a token lasts that a guest reads from a disk, which cannot be renewed: a year. It ends with the pod in any case, and the API
// server may shorten it.
const tokenSeconds = 365 * 24 * 60 * 60

// accountFiles are those that Kubernetes mounts into pods: the token of the pod's account, the CA of the API server, the namespace.
func accountFiles() corev1.VolumeSource {
	namespace := corev1.DownwardAPIVolumeFile{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{namespace}}},
	}}}
}
