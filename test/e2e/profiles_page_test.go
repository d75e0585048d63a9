package e2e

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
)

// TestProfilesPage runs the commands of docs/tutorials/profiles.md, and compares what they print with the page.
func TestProfilesPage(t *testing.T) {
	h := newShop(t)
	t.Cleanup(func() {
		h.kubectlAfter("delete", "vm,vmi", "--all", "--timeout=60s")
		h.kubectlAfter("delete", "clusterguestprofile", "site")
	})
	scripts, shown := 0, 0
	for _, section := range []string{"From an empty folder", "From presets to profiles"} {
		ran, compared := h.walk(page.Blocks(t, "../../docs/tutorials/profiles.md", section), h.awaitProfiles)
		scripts, shown = scripts+ran, shown+compared
	}
	if scripts != 10 || shown != 7 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
}

// awaitProfiles waits until the webhooks know the profiles that a script of the page wrote.
func (h shop) awaitProfiles(script string) {
	h.Helper()
	knows := ""
	switch {
	case strings.Contains(script, "apply -f profiles/"):
		knows = "ioThreadsPolicy: auto"
	case strings.Contains(script, "apply -f safe.yaml"):
		knows = "GuestProfile 'safe' and GuestProfile 'web'"
	case strings.Contains(script, "patch guestprofile safe"):
		knows = "action: poweroff"
	default:
		return
	}
	const guest = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: probe, labels: {tier: web}}, " +
		"spec: {domain: {memory: {guest: 128Mi}, devices: {}}}}"
	h.awaitCreation("the webhooks know '"+knows+"'", guest, func(a answer) bool { return strings.Contains(a.stdout+a.stderr, knows) })
}
