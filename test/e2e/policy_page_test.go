package e2e

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
)

// TestPolicyFromAnEmptyFolder runs the commands of docs/tutorials/policy.md. The policy is in force for all namespaces with a label that only the page sets.
func TestPolicyFromAnEmptyFolder(t *testing.T) {
	h := newShop(t)
	t.Cleanup(func() {
		h.kubectlAfter("delete", "guestpolicy", "u1-only", "--ignore-not-found")
		h.kubectlAfter("delete", "namespace", "shop", "--ignore-not-found", "--wait=false")
		h.kubectlAfter("delete", "virtualmachineclusterinstancetype", "u1.tiny", "m1.tiny", "--ignore-not-found")
	})
	scripts, shown := h.walk(page.Blocks(t, "../../docs/tutorials/policy.md", ""), func(script string) {
		if strings.HasPrefix(script, "kubectl apply -f policies/u1.yaml") {
			h.awaitPolicy()
		}
		if strings.HasPrefix(script, "kubectl kiln policy approve") {
			h.awaitException()
		}
	})
	if scripts != 20 || shown != 11 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
	if h.exists("guestpolicy", "u1-only") {
		t.Error("the page leaves its policy behind")
	}
}

// awaitPolicy waits until the webhooks, which read policies by watches, judge by the version of the page that is applied: as often in a row as leaves
// no replica out.
func (h shop) awaitPolicy() {
	h.Helper()
	denies := strings.Contains(h.want("cat policies/u1.yaml"), "Deny")
	row := 0
	h.eventually("the webhooks judge by the policy", func() bool {
		output, status := h.run("kubectl create --dry-run=server -f policies/bad.yaml")
		if row++; !strings.Contains(output, "GuestPolicy 'u1-only'") || denies != (status != 0) {
			row = 0
		}
		return row == 4
	})
}

// awaitException waits until the webhooks admit the VM of the page's exception.
func (h shop) awaitException() {
	h.Helper()
	row := 0
	h.eventually("the webhooks know the exception", func() bool {
		if _, status := h.run("kubectl create --dry-run=server -f load.yaml"); status != 0 {
			row = 0
			return false
		}
		row++
		return row == 4
	})
}
