package pods

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/snapshot"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
)

// TestStateOfASnapshot: EFI variables and the state of a TPM are part of a snapshot. After the guest has lost both, and its disk, a restore brings back the
// variable that it wrote, and the TPM opens what it sealed: the key of its state is in the Secret that the restored claim names.
func TestStateOfASnapshot(t *testing.T) {
	nightly.Only(t)
	node.Require(t)
	startStorage(t)
	n := newTenant(t, "stateful")
	data := fmt.Sprintf(copiedClaim, "data", "Filesystem")
	n.apply(data + "---\n" + seed("kiln.vault=/dev/vdb kiln.keep=moment") + sealing("sealing"))
	first := n.vault()
	sealed := regexp.MustCompile(`KILN-VAULT sealed ([0-9a-f]{32})\b`).FindStringSubmatch(first)
	if sealed == nil || !strings.Contains(first, "KILN-VAULT variable none") {
		t.Fatalf("the first guest finds a state, or seals nothing:\n%s", first)
	}
	n.apply(fmt.Sprintf(momentOf, "sealing"))
	n.kubectl("wait", "vmsnapshot/moment", "--for=condition=Ready", "--timeout=300s")
	n.whole("NoGuestAgent", "[data "+snapshot.State+"] [image seed]")

	n.halted("sealing")
	n.kubectl("delete", "pvc", "data", "guest-state-sealing", "--timeout=180s")
	n.apply(data + "---\n" + seed("kiln.vault=/dev/vdb kiln.keep=after"))
	n.kubectl("patch", "vm", "sealing", "--type=merge", "-p", `{"spec": {"runStrategy": "Always"}}`)
	if log := n.vault(); !strings.Contains(log, "KILN-VAULT variable none") || !strings.Contains(log, "KILN-VAULT sealed ") {
		t.Fatalf("a guest without its state has one:\n%s", log)
	}
	n.halted("sealing")

	n.apply(fmt.Sprintf(backToMoment, "sealing"))
	n.ended("vmrestore/back", "complete", "true")
	n.kubectl("patch", "vm", "sealing", "--type=merge", "-p", `{"spec": {"runStrategy": "Always"}}`)
	log := n.vault()
	for _, want := range []string{"variable moment", "unsealed " + sealed[1], "refused TPM_RC_POLICY_FAIL"} {
		if !strings.Contains(log, "KILN-VAULT "+want) {
			t.Errorf("the restored guest does not say '%s':\n%s", want, log)
		}
	}
}

// vault is what the guest says of EFI variables and TPM.
func (n *tenant) vault() string {
	n.Helper()
	return n.console("sealing", "KILN-VAULT-END")
}
