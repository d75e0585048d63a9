package pod

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStateClaim: what a pod mounts is what the claim is called, and the claim is the VM's.
func TestStateClaim(t *testing.T) {
	owned := true
	for _, test := range []struct {
		why, spec, class string
		owners           []metav1.OwnerReference
		owner            string // empty if there is no claim
	}{
		{"nothing to keep", efi("persistent: false"), "fast", nil, ""},
		{"nowhere to keep it", efi("persistent: true"), "", nil, ""},
		{"variables", efi("persistent: true"), "fast", nil, "VirtualMachineInstance web"},
		{"a TPM", "domain: {devices: {tpm: {persistent: true}}}", "fast", nil, "VirtualMachineInstance web"},
		{"of a VM", efi("persistent: true"), "fast", []metav1.OwnerReference{{Kind: "Backup", Name: "b"}, {Kind: "VirtualMachine", Name: "vm", Controller: &owned}},
			"VirtualMachine vm"},
	} {
		t.Run(test.why, func(t *testing.T) {
			in := input(t, test.spec)
			in.StateClass, in.VMI.OwnerReferences = test.class, test.owners
			claim := StateClaim(in)
			if test.owner == "" {
				if claim != nil {
					t.Errorf("got %v", claim)
				}
				return
			}
			if diff := cmp.Diff([]string{"/var/lib/kiln/state claim " + claim.Name}, found(t, in)); diff != "" {
				t.Error(diff)
			}
			owner := claim.OwnerReferences[0]
			if got := owner.Kind + " " + owner.Name; len(claim.OwnerReferences) != 1 || got != test.owner || *claim.Spec.StorageClassName != test.class ||
				claim.Namespace != "shop" {
				t.Errorf("owner '%s', %+v", got, claim)
			}
		})
	}
}

// TestKeySecret: the pod of a persistent TPM mounts the key that the claim names, where only its account reads it, and says so to the launcher. Others get
// no key.
func TestKeySecret(t *testing.T) {
	const key = "ABCDEFGH"
	for _, test := range []struct {
		why, spec string
		given     bool
		mounted   bool
	}{
		{"a TPM that outlives the pod", "domain: {devices: {tpm: {persistent: true}}}", true, true},
		{"one of a claim without a key", "domain: {devices: {tpm: {persistent: true}}}", false, false},
		{"one that ends with the pod", "domain: {devices: {tpm: {}}}", true, false},
		{"one that is off", "domain: {devices: {tpm: {enabled: false, persistent: true}}}", true, false},
		{"variables", efi("persistent: true"), true, false},
	} {
		in := input(t, test.spec)
		in.StateClass = "fast"
		secret := KeySecret(in, key)
		if test.given {
			in.KeySecret = secret.Name
		}
		pod := made(t, in)
		mounts := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == "key" && m.MountPath == "/var/lib/kiln/key" && m.ReadOnly && m.SubPath == ""
		})
		volume := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "key" && v.Secret.SecretName == secret.Name && *v.Secret.DefaultMode == 0o400 && v.Secret.Optional == nil
		})
		passed := slices.Contains(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: EnvKeySecret, Value: secret.Name})
		claim := StateClaim(in)
		named := claim != nil && claim.Annotations[v1alpha1.AnnotationTPMKey] == secret.Name
		if mounts != test.mounted || volume != test.mounted || passed != test.mounted || named != test.mounted {
			t.Errorf("%s: mounted %t, a volume %t, variable %s %t, annotation of the claim %t; want %t",
				test.why, mounts, volume, EnvKeySecret, passed, named, test.mounted)
		}
	}
}

// TestNamesOfKeySecrets: each key has a Secret of its own, and no other Secret of a namespace has such a name by chance.
func TestNamesOfKeySecrets(t *testing.T) {
	in := input(t, "")
	one, two := KeySecret(in, "one").Name, KeySecret(in, "two").Name
	if one == two || !HoldsKey(one, "one") || HoldsKey(one, "two") || HoldsKey(one, "") {
		t.Errorf("names are '%s' and '%s'", one, two)
	}
	in.VMI.Name = strings.Repeat("a", 253)
	for _, name := range []string{one, two, KeySecret(in, "one").Name} {
		if !IsKeySecret(name) {
			t.Errorf("'%s' is refused", name)
		}
	}
	for _, name := range []string{"", "web", "guest-state-web", "guest-state-" + digestOf("one"), "guest-state-web-" + strings.ToUpper(digestOf("one")),
		"x" + one, one + "x.", "guest-state-../" + one, one + "\n"} {
		if IsKeySecret(name) {
			t.Errorf("'%s' is not refused", name)
		}
	}
}
