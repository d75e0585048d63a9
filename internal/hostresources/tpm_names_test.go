package hostresources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// tpmKey is the secret of a TPM, as a start asks for it.
var tpmKey = []backend.Secret{{Ref: backend.TPM}}

func bound(t *testing.T, h *BareMachine, vmi *v1.VirtualMachineInstance) Bound {
	t.Helper()
	bound, errs := h.Bind(t.Context(), vmi, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return bound
}

func TestWhichTPMsAreEncrypted(t *testing.T) {
	t.Parallel()
	host := &BareMachine{State: t.TempDir(), TPMKeys: t.TempDir(), TPMStates: t.TempDir()}
	encrypted := func(h *BareMachine, vmi *v1.VirtualMachineInstance) bool {
		t.Helper()
		return bound(t, h, vmi).TPMEncrypted
	}
	if encrypted(&BareMachine{State: host.State, TPMStates: host.TPMStates}, tpmGuest(t, firstUID, true)) {
		t.Error("the administrator named no folder for keys")
	}
	none := tpmGuest(t, firstUID, true)
	none.Spec.Domain.Devices.TPM = nil
	if encrypted(host, none) {
		t.Error("a guest without a TPM has no state")
	}
	brief := tpmGuest(t, firstUID, false)
	if !encrypted(host, brief) {
		t.Error("a state that ends with its guest is encrypted too")
	}
	if _, err := bound(t, host, brief).Secrets(tpmKey); err != nil {
		t.Fatal(err)
	}
	if err := host.Forget(brief); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, host.TPMKeys); len(left) > 0 {
		t.Errorf("keys %v; want none to outlive its state", left)
	}
	if err := os.MkdirAll(filepath.Join(host.TPMStates, "kiln", "shop."+seedDigest, "tpm2"), 0o711); err != nil {
		t.Fatal(err)
	}
	if encrypted(host, tpmGuest(t, firstUID, true)) {
		t.Error("a state that was made without a key does not start with one")
	}
	if !encrypted(host, stealing(t, true)) {
		t.Error("the state of another namespace's guest is another")
	}
	if _, err := readKey(host.tpmKey("shop." + seedDigest)); err != nil { // an administrator's, say
		t.Fatal(err)
	}
	if !encrypted(host, tpmGuest(t, secondUID, true)) {
		t.Error("a state with a key is encrypted")
	}
}

// TestTPMNames: no text of a tenant is a path, and no two guests have one name.
func TestTPMNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, c := range []struct {
		why, namespace, identity string
		uid                      types.UID
		persistent               bool
	}{
		{"of a VM", "shop", "seed", firstUID, true},
		{"of a VM of another namespace", "attacker", "seed", secondUID, true},
		{"of another VM", "shop", "seed2", firstUID, true},
		{"a bare guest", "shop", "", firstUID, true},
		{"with its VMI", "shop", "seed", firstUID, false},
		{"a namespace that is called like it", firstUID, "seed", secondUID, true},
		{"an identity that is a path", "attacker", "../shop." + seedDigest, secondUID, true},
		{"an identity that is another's name", "attacker", "shop." + seedDigest, secondUID, true},
	} {
		vmi := tpmGuest(t, c.uid, c.persistent)
		vmi.Namespace, vmi.Annotations[v1alpha1.AnnotationIdentity] = c.namespace, c.identity
		name, err := tpmName(vmi)
		if err != nil || strings.ContainsAny(name, "/") || len(name) > 200 {
			t.Errorf("%s: '%s', %v", c.why, name, err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("'%s' and '%s' have one name: %s", c.why, other, name)
		}
		seen[name] = c.why
	}
	again := tpmGuest(t, secondUID, true)
	again.Spec.Domain.Firmware.UUID = "00000000-0000-4000-8000-000000000009"
	if name, err := tpmName(again); err != nil || seen[name] != "of a VM" {
		t.Errorf("the next boot, with another UUID of its firmware: '%s', %v; want the name 'of a VM'", name, err)
	}
	bad := tpmGuest(t, "../../etc/shadow", false)
	if _, err := tpmName(bad); err == nil {
		t.Error("a UID that is a path")
	}
}
