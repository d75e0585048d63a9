package pods

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/nightly"
)

// stateClass is vmStateStorageClass of the tests' configuration. Nothing provisions its volumes.
const stateClass = "state"

// stateVolume makes the volume of a VM's claim for state: a folder of the node, which it returns.
func (n *tenant) stateVolume(vm string) (folder string) {
	n.Helper()
	folder = filepath.Join(shared.Dir, n.namespace+"-state-"+vm)
	if err := os.Mkdir(folder, 0o700); err != nil {
		n.Fatal(err)
	}
	name := n.namespace + "-state-" + vm
	n.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(n.Context()), "delete", "pv", name, "--wait=false"); err != nil {
			n.Error(err, out)
		}
	})
	n.apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: %s
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %s, name: guest-state-%s}
  local: {path: %s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}
`, name, stateClass, n.namespace, vm, folder))
	return folder
}

// encrypted reports whether swtpm has encrypted a state. Its files begin with two bytes of versions, two of the header's size and two of flags, big endian.
// The lowest flag says that the content is encrypted (swtpm: BLOB_FLAG_ENCRYPTED).
func encrypted(t *testing.T, file string) bool {
	t.Helper()
	state, err := os.ReadFile(file)
	if err != nil || len(state) < 6 {
		t.Fatalf("the state of the TPM has %d bytes: %v", len(state), err)
	}
	return binary.BigEndian.Uint16(state[4:])&1 == 1
}

// TestSecureBootKeepsItsState: over three pods, firmware enforces Secure Boot, a variable that the first guest wrote is there, and the TPM opens what it
// sealed to the state of Secure Boot (PCR 7), and to nothing else. The TPM's state is encrypted with the key of one Secret. Claim and Secret go with the VM.
func TestSecureBootKeepsItsState(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "secure")
	n.fileClaim("data")
	folder := n.stateVolume("sealing")
	var secret, hardware string
	const kept = "jsonpath={.spec.hardware}"
	for i, boot := range []string{"first", "second", "third"} {
		n.apply(seed("kiln.vault=/dev/vdb kiln.keep=" + boot))
		if i == 0 {
			n.apply(sealing("sealing"))
		} else {
			n.restart("sealing")
		}
		log := n.console("sealing", "KILN-VAULT-END")
		want := []string{"secureboot 1", "variable none"}
		if i > 0 {
			want = []string{"secureboot 1", "variable first", "unsealed " + secret, "refused TPM_RC_POLICY_FAIL"}
		} else if found := regexp.MustCompile(`KILN-VAULT sealed ([0-9a-f]{32})\b`).FindStringSubmatch(log); found != nil {
			secret, hardware = found[1], n.kubectl("get", "guesthardware", "sealing", "-o", kept)
		} else {
			t.Fatalf("the first guest seals nothing:\n%s", log)
		}
		for _, line := range want {
			if !strings.Contains(log, "KILN-VAULT "+line) {
				t.Fatalf("in its %s pod the guest does not say '%s':\n%s", boot, line, log)
			}
		}
	}
	if now := n.kubectl("get", "guesthardware", "sealing", "-o", kept); now != hardware {
		t.Errorf("the hardware differs in the third pod:\n%s\n%s", hardware, now)
	}
	if !encrypted(t, filepath.Join(folder, "tpm2", "tpm2-00.permall")) {
		t.Error("the state of the TPM is not encrypted")
	}
	const annotated = `jsonpath={.metadata.annotations.kilnvm\.io/tpm-key}`
	key := n.kubectl("get", "persistentvolumeclaim", "guest-state-sealing", "-o", annotated)
	const ofKeys = "--field-selector=type=kilnvm.io/tpm-key"
	if names := strings.TrimSpace(n.kubectl("get", "secrets", ofKeys, "-o", "name")); names != "secret/"+key {
		t.Errorf("the claim names Secret '%s', and there are '%s'", key, names)
	}
	n.kubectl("delete", "vm", "sealing", "--timeout=180s")
	n.gone("vm,vmi,pods,guestpods,guesthardwares")
	n.gone("persistentvolumeclaims/guest-state-sealing")
	n.gone("secrets/" + key)
}
