package hostresources

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	v1 "kubevirt.io/api/core/v1"
)

// TestPodTPMKey: the state of a persistent TPM is encrypted with the key of the Secret that the controller names. A key that is missing or another one
// starts no guest, and is in no message.
func TestPodTPMKey(t *testing.T) {
	const key = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567ABCDEFGHIJKLMNOPQRST"
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.UID = "web", "1d9c2f0e-0000-4000-8000-000000000001"
	secret := pod.KeySecret(pod.Input{VMI: vmi}, key).Name
	const file, data = pod.Key + "/" + pod.KeyFile, pod.Key + "/..data/" + pod.KeyFile
	for _, c := range []struct {
		why       string
		files     map[string]string
		secret    string
		ends      bool // the TPM's state ends with the pod
		encrypted bool
		refused   string
	}{
		{"as kubelet mounts it", map[string]string{file + "->": "..data/" + pod.KeyFile, data: key}, secret, false, true, ""},
		{"a state from before keys", nil, "", false, false, ""},
		{"a state that ends with the pod", map[string]string{file: key}, secret, true, false, ""},
		{"no mount", nil, secret, false, false, "is not mounted"},
		{"other data", map[string]string{pod.Key + "/password": key}, secret, false, false, "'key' does not exist below Secret '" + secret + "'"},
		{"another key", map[string]string{file: key[1:]}, secret, false, false, "restore it from a backup"},
		{"no content", map[string]string{file: ""}, secret, false, false, "restore it from a backup"},
		{"no end", map[string]string{file: strings.Repeat(key, 1000)}, secret, false, false, "restore it from a backup"},
		{"a link out", map[string]string{file + "->": "/etc/passwd"}, secret, false, false, "cannot be served"},
	} {
		files := map[string]string{pod.State + "/.keep": ""}
		for name, content := range c.files {
			files[name] = content
		}
		p := mounted(t, files)
		p.Getenv = func(name string) string { return map[string]string{pod.EnvKeySecret: c.secret}[name] }
		vmi.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: new(!c.ends)}
		bound, errs := p.Bind(t.Context(), vmi)
		refused(t, c.why, c.refused, errs.ToAggregate())
		if err := errs.ToAggregate(); err != nil && (strings.Contains(err.Error(), key[1:]) || errs[0].Field != "spec.domain.devices.tpm.persistent") {
			t.Errorf("%s: the error is at '%s': %v", c.why, errs[0].Field, err)
		}
		if bound.TPMEncrypted != c.encrypted {
			t.Errorf("%s: encrypted is %t", c.why, bound.TPMEncrypted)
		}
		values, err := bound.Secrets([]backend.Secret{{Ref: backend.TPM}})
		if want := map[bool]string{true: key}[c.encrypted]; err != nil || string(values[backend.TPM]) != want {
			t.Errorf("%s: libvirt gets '%s', %v; want '%s'", c.why, values[backend.TPM], err, want)
		}
	}
}
