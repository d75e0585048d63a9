package hostresources

import (
	"fmt"

	"github.com/kilnvm/kiln/pkg/pod"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// maxKey bounds the key of a TPM's state, in bytes.
const maxKey = 1 << 10

// tpmKey returns the key of the state of a persistent TPM. It is nil if Kiln's controller has not given the pod a key: then the state is not encrypted. A key
// that differs from the original key of the Secret is refused, because swtpm would encrypt a new state with it, and fail on an existing state without a
// reason.
func (p *Pod) tpmKey(tpm *v1.TPMDevice) ([]byte, field.ErrorList) {
	if tpm == nil || !ptr.Deref(tpm.Persistent, false) || p.Getenv == nil {
		return nil, nil
	}
	secret := p.Getenv(pod.EnvKeySecret)
	if secret == "" {
		return nil, nil
	}
	key, err := p.mountedKey(fmt.Sprintf("Secret '%s'", secret))
	if err == nil && !pod.HoldsKey(secret, string(key)) {
		err = fmt.Errorf("the key '%s' of Secret '%s' is not the one that its name stands for: restore it from a backup", pod.KeyFile, secret)
	}
	if err != nil {
		return nil, field.ErrorList{field.InternalError(tpmPath.Child("persistent"), err)}
	}
	return key, nil
}

func (p *Pod) mountedKey(name string) ([]byte, error) {
	tree, err := openMount(p.path(pod.Key), name)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	return tree.readBounded(pod.KeyFile, maxKey)
}
