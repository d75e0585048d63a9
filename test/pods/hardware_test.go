package pods

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
)

// hardware returns what the first report of a console says of the guest's hardware, one fact a line.
func (n *tenant) hardware(console string) string {
	n.Helper()
	report, err := guest.ParseReport(strings.NewReader(console))
	if err != nil {
		n.Fatal(err)
	}
	return report.Text()
}

// TestSameHardware: a guest that starts in another pod on another node has the hardware that it had, by the record and by what it sees itself.
func TestSameHardware(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "same")
	join(t)
	t.Parallel()
	boot := func(node string) (seen, recorded string) {
		if n.apply(hostModel("same", only(node))); node != "node-1" {
			n.restart("same")
		}
		n.eventually("the guest starts on "+node, func() (string, bool) {
			out, err := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "vmi", "same", "-o", "jsonpath={.status.phase} {.status.nodeName}")
			return out, err == nil && out == "Running "+node
		})
		seen = n.hardware(n.console("same", "KILN-REPORT-END"))
		return seen, n.kubectl("get", "guesthardware", "same", "-o", "jsonpath={.spec.hardware.digest} {.spec.hardware}")
	}
	seen, _ := boot("node-1")
	uuid := n.kubectl("get", "guesthardware", "same", "-o", "jsonpath={.spec.hardware.uuid}")
	mac := n.kubectl("get", "vmi", "same", "-o", "jsonpath={.status.interfaces[0].mac}")
	if uuid == "" || mac == "" || !strings.Contains(seen, "dmi product_uuid="+uuid) || !strings.Contains(seen, " mac="+mac) {
		t.Errorf("the guest does not see UUID '%s' and MAC address '%s':\n%s", uuid, mac, seen)
	}
	n.verifiedRecord("same")
	recorded := n.kubectl("get", "guesthardware", "same", "-o", "jsonpath={.spec.hardware.digest} {.spec.hardware}")
	seenAgain, recordedAgain := boot("node-2")
	if diff := cmp.Diff(seen, seenAgain); diff != "" {
		t.Errorf("on the second node the guest sees other hardware (-first +second):\n%s", diff)
	}
	if recordedAgain != recorded || len(strings.Fields(recorded)[0]) < 32 {
		t.Errorf("the record was\n%s\nand on the second node it is\n%s", recorded, recordedAgain)
	}
	t.Logf("the guest sees %d facts of hardware, byte for byte the same on both nodes", strings.Count(seen, "\n"))
}
