package pod

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// found is what a container finds besides the folders that every launcher has: 'volume at path', with its source.
func found(t *testing.T, in Input) (list []string) {
	t.Helper()
	made := made(t, in)
	sources := map[string]corev1.VolumeSource{}
	for _, v := range made.Spec.Volumes {
		sources[v.Name] = v.VolumeSource
	}
	c := made.Spec.Containers[0]
	for _, m := range c.VolumeMounts[2:] {
		list = append(list, fmt.Sprintf("%s %s%s", m.MountPath, source(sources[m.Name]), map[bool]string{true: " ro"}[m.ReadOnly]))
	}
	for _, d := range c.VolumeDevices {
		list = append(list, d.DevicePath+" "+source(sources[d.Name]))
	}
	return list
}

func source(s corev1.VolumeSource) string {
	switch {
	case s.PersistentVolumeClaim != nil:
		return "claim " + s.PersistentVolumeClaim.ClaimName + map[bool]string{true: " read"}[s.PersistentVolumeClaim.ReadOnly]
	case s.Image != nil:
		return "image " + s.Image.Reference + " " + string(s.Image.PullPolicy)
	case s.Secret != nil:
		return "secret " + s.Secret.SecretName
	case s.ConfigMap != nil:
		return "configMap " + s.ConfigMap.Name
	case s.DownwardAPI != nil:
		return "downwardAPI " + s.DownwardAPI.Items[0].Path
	case s.Projected != nil:
		return fmt.Sprintf("%d sources", len(s.Projected.Sources))
	}
	return "?"
}

func TestVolumes(t *testing.T) {
	for _, test := range []struct {
		why, volume string
		claim       Claim
		want        []string
	}{
		{"a claim with a file system", "persistentVolumeClaim: {claimName: c}", Claim{}, []string{"/volumes/a claim c"}},
		{"a block device", "persistentVolumeClaim: {claimName: c}", Claim{Block: true}, []string{"/dev/volumes/a claim c"}},
		{"that is read", "persistentVolumeClaim: {claimName: c, readOnly: true}", Claim{Block: true}, []string{"/dev/volumes/a claim c read"}},
		{"nobody may write it", "persistentVolumeClaim: {claimName: c}", Claim{ReadOnly: true}, []string{"/volumes/a claim c read ro"}},
		{"a DataVolume has a claim of its name", "dataVolume: {name: c}", Claim{}, []string{"/volumes/a claim c"}},
		{"an overlay is elsewhere", "ephemeral: {persistentVolumeClaim: {claimName: c}}", Claim{Block: true}, []string{"/dev/volumes/a claim c read"}},
		{"an image", "containerDisk: {image: os:1, imagePullPolicy: Always, path: /disk/x}", Claim{}, []string{"/volumes/a image os:1 Always ro"}},
		{"a file in the launcher's own folder", "emptyDisk: {capacity: 1Gi}", Claim{}, nil},
		{"a ConfigMap", "configMap: {name: c}", Claim{}, []string{"/volumes/a configMap c ro"}},
		{"a Secret", "secret: {secretName: c}", Claim{}, []string{"/volumes/a secret c ro"}},
		{"fields of the pod", "downwardAPI: {fields: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}", Claim{},
			[]string{"/volumes/a downwardAPI labels ro"}},
		{"token, CA and namespace", "serviceAccount: {serviceAccountName: c}", Claim{}, []string{"/volumes/a 3 sources ro"}},
		{"sysprep of a Secret", "sysprep: {secret: {name: c}}", Claim{}, []string{"/volumes/a secret c ro"}},
		{"sysprep of a ConfigMap", "sysprep: {configMap: {name: c}}", Claim{}, []string{"/volumes/a configMap c ro"}},
		{"cloud-init that is in the VMI", "cloudInitNoCloud: {userData: a}", Claim{}, nil},
		{"cloud-init of Secrets", "cloudInitConfigDrive: {secretRef: {name: u}, networkDataSecretRef: {name: net}}", Claim{},
			[]string{"/secrets/a/userdata secret u ro", "/secrets/a/networkdata secret net ro"}},
		{"networks alone", "cloudInitNoCloud: {userData: a, networkDataSecretRef: {name: net}}", Claim{}, []string{"/secrets/a/networkdata secret net ro"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, "volumes: [{name: a, "+test.volume+"}]")
			in.Claims = map[string]Claim{"c": test.claim}
			if diff := cmp.Diff(test.want, found(t, in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMissingClaims: the controller waits for these errors, and for no other.
func TestMissingClaims(t *testing.T) {
	in := input(t, `volumes: [{name: a, persistentVolumeClaim: {claimName: c}}, {name: b, dataVolume: {name: d}},
		{name: e, ephemeral: {persistentVolumeClaim: {claimName: f}}}]`)
	_, errs := New(in)
	want := []string{"FieldValueNotFound spec.volumes[0].persistentVolumeClaim.claimName", "FieldValueNotFound spec.volumes[1].dataVolume.name",
		"FieldValueNotFound spec.volumes[2].ephemeral.persistentVolumeClaim.claimName"}
	if diff := cmp.Diff(want, typesAndFields(errs)); diff != "" {
		t.Error(diff)
	}
}

// TestVolumeNames: whatever a tenant calls his volumes, names are labels, and no two are one.
func TestVolumeNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]string{"private": "", "temporary": "", "state": "", "kernel": "", "hugepages": ""}
	names := []string{"private", "state", "kernel", "userdata-x", "x", long, long[:62] + "b", long[:38], long[:39], long[:40],
		strings.TrimPrefix(volumeName("volume", long), "volume-")}
	for _, prefix := range []string{"volume", "userdata", "networkdata"} {
		for _, name := range names {
			got := volumeName(prefix, name)
			if other, taken := seen[got]; taken {
				t.Errorf("'%s' and '%s' are '%s'", name, other, got)
			}
			seen[got] = name
			if wrong := validation.IsDNS1123Label(got); len(wrong) > 0 {
				t.Errorf("'%s': %v", got, wrong)
			}
		}
	}
}

func TestPullSecrets(t *testing.T) {
	in := input(t, `domain: {firmware: {kernelBoot: {container: {image: k, imagePullSecret: c}}}},
		volumes: [{name: a, containerDisk: {image: a, imagePullSecret: b}}, {name: b, containerDisk: {image: b, imagePullSecret: a}}]`)
	in.PullSecrets = []corev1.LocalObjectReference{{Name: "a"}}
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}, {Name: "c"}}, made(t, in).Spec.ImagePullSecrets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/kernel image k  ro", "/volumes/a image a  ro", "/volumes/b image b  ro"}, found(t, in)); diff != "" {
		t.Error(diff)
	}
}
