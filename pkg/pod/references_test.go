package pod

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestReferences(t *testing.T) {
	for _, test := range []struct {
		why, vmi string
		want     []string
	}{
		{"a Secret of files", "volumes: [{name: a, secret: {secretName: s}}]", []string{"spec.volumes[0].secret.secretName: Secret s"}},
		{"one that may be missing", "volumes: [{name: a, secret: {secretName: s, optional: true}}]", nil},
		{"one that must not", "volumes: [{name: a, secret: {secretName: s, optional: false}}]", []string{"spec.volumes[0].secret.secretName: Secret s"}},
		{"a ConfigMap", "volumes: [{name: a, configMap: {name: c}}]", []string{"spec.volumes[0].configMap.name: ConfigMap c"}},
		{"a ConfigMap that may be missing", "volumes: [{name: a, configMap: {name: c, optional: true}}]", nil},
		{"sysprep of a Secret", "volumes: [{name: a, sysprep: {secret: {name: s}}}]", []string{"spec.volumes[0].sysprep.secret.name: Secret s"}},
		{"sysprep of a ConfigMap", "volumes: [{name: a, sysprep: {configMap: {name: c}}}]", []string{"spec.volumes[0].sysprep.configMap.name: ConfigMap c"}},
		{"cloud-init", "volumes: [{name: a, cloudInitNoCloud: {secretRef: {name: u}, networkDataSecretRef: {name: w}}}]",
			[]string{"spec.volumes[0].cloudInitNoCloud.secretRef.name: Secret u", "spec.volumes[0].cloudInitNoCloud.networkDataSecretRef.name: Secret w"}},
		{"a config drive, and the same Secret again",
			"volumes: [{name: a, cloudInitConfigDrive: {secretRef: {name: u}, networkDataSecretRef: {name: u}}}, {name: b, secret: {secretName: u}}]",
			[]string{"spec.volumes[0].cloudInitConfigDrive.secretRef.name: Secret u"}},
		{"a ConfigMap of a Secret's name", "volumes: [{name: a, secret: {secretName: x}}, {name: b, configMap: {name: x}}]",
			[]string{"spec.volumes[0].secret.secretName: Secret x", "spec.volumes[1].configMap.name: ConfigMap x"}},
		{"credentials", "accessCredentials: [{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {noCloud: {}}}}, " +
			"{userPassword: {source: {secret: {secretName: p}}, propagationMethod: {qemuGuestAgent: {}}}}, " +
			"{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {qemuGuestAgent: {users: [a]}}}}]",
			[]string{"spec.accessCredentials[0].sshPublicKey.source.secret.secretName: Secret k",
				"spec.accessCredentials[1].userPassword.source.secret.secretName: Secret p"}},
		{"credentials without a source", "accessCredentials: [{}, {sshPublicKey: {source: {}, propagationMethod: {}}}, " +
			"{userPassword: {source: {secret: {secretName: ''}}}}]", nil},
		{"an account of a volume", "volumes: [{name: a, serviceAccount: {serviceAccountName: s}}]",
			[]string{"spec.volumes[0].serviceAccount.serviceAccountName: ServiceAccount s"}},
		{"an account of the VMI", "serviceAccountName: s", []string{"spec.serviceAccountName: ServiceAccount s"}},
		{"the account that Kiln makes", "serviceAccountName: guest-web", nil},
		{"nothing", "volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]", nil},
	} {
		in := input(t, test.vmi)
		var got, mounted []string
		for _, r := range References(in.VMI) {
			got = append(got, fmt.Sprintf("%s: %s %s", r.At, r.Kind, r.Name))
			if r.Kind != KindServiceAccount {
				mounted = append(mounted, r.Kind+" "+r.Name)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.why, diff)
		}
		if diff := cmp.Diff(mounted, mustExist(made(t, in))); diff != "" {
			t.Errorf("%s, in the pod: %s", test.why, diff)
		}
	}
}

// mustExist returns the Secrets and ConfigMaps that kubelet must find for a pod.
func mustExist(pod *corev1.Pod) (list []string) {
	add := func(name string) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional):
			add(KindSecret + " " + v.Secret.SecretName)
		case v.ConfigMap != nil && (v.ConfigMap.Optional == nil || !*v.ConfigMap.Optional):
			add(KindConfigMap + " " + v.ConfigMap.Name)
		}
	}
	return list
}
