package pod

import (
	"regexp"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The state of a persistent TPM is encrypted with a key in a Secret, which an annotation of the claim names. The name of the Secret ends in a digest of the
// key. Therefore nobody can create a Secret of this name before, and a Secret that was replaced is detected, although Kiln's controller may read no Secret.

// keySecretType is the type of Secrets with a key of a TPM's state.
const keySecretType corev1.SecretType = v1alpha1.Prefix + "tpm-key"

// NeedsKey reports whether a VMI has a TPM whose state outlives the pod.
func NeedsKey(in Input) bool { return guest{Input: in, spec: &in.VMI.Spec}.keepsTPM() }

// encryptsTPM reports whether the pod gets a key.
func (g guest) encryptsTPM() bool { return g.keepsTPM() && g.KeySecret != "" }

// KeySecret returns the Secret with a key. The claim for state has the same owner, so that both are deleted together.
func KeySecret(in Input, key string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: stateMeta(in.VMI, StateName(in.VMI.Name)+"-"+digestOf(key)),
		Type:       keySecretType, Immutable: new(true), Data: map[string][]byte{KeyFile: []byte(key)},
	}
}

// keySecretName is the form of the names that KeySecret gives.
var keySecretName = regexp.MustCompile(`^` + statePrefix + `.+-[a-z2-7]{16}$`)

// IsKeySecret reports whether KeySecret can have given a Secret this name. A user who may write the claim may write any name into it, and must not make the
// pod mount other Secrets. The name of another VM may be in it, because a claim can be copied.
func IsKeySecret(name string) bool {
	return keySecretName.MatchString(name) && len(validation.IsDNS1123Subdomain(name)) == 0
}

// HoldsKey reports whether KeySecret has made the Secret of this name with the key.
func HoldsKey(secret, key string) bool { return strings.HasSuffix(secret, "-"+digestOf(key)) }
