package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
)

// machine is a VirtualMachine with a device of each kind that a pod on any node serves.
func machine(name, placement string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %[1]s}
spec:
  runStrategy: Always
  template:
    spec:
      terminationGracePeriodSeconds: 0
      %[2]s
      domain:
        memory: {guest: 192Mi}
        firmware: {kernelBoot: {kernelArgs: %[5]s, container: {image: %[3]s, kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}}}
        devices:
          rng: {}
          watchdog: {name: dog, i6300esb: {action: poweroff}}
          inputs: [{name: tablet, type: tablet, bus: usb}]
          disks:
          - {name: image, disk: {bus: virtio}}
          - {name: empty, disk: {bus: scsi}}
          - {name: more, disk: {bus: sata}}
          - {name: seed, cdrom: {bus: sata}}
          interfaces: [{name: default, masquerade: {}, ports: [{port: 8080}]}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: image, containerDisk: {image: %[4]s}}
      - {name: empty, emptyDisk: {capacity: 8Mi}}
      - {name: more, emptyDisk: {capacity: 8Mi}}
      - {name: seed, cloudInitNoCloud: {userData: "said by the VMI"}}
`, name, strings.TrimSpace(placement), kernelImage, diskImage, guest.Cmdline)
}

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
		if n.apply(machine("same", only(node))); node != "node-1" {
			n.kubectl("delete", "vmi", "same", "--timeout=120s")
		}
		n.eventually("the guest starts on "+node, func() (string, bool) {
			out, err := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", "vmi", "same", "-o", "jsonpath={.status.phase} {.status.nodeName}")
			return out, err == nil && out == "Running "+node
		})
		seen = n.hardware(n.console("same", "KILN-REPORT-END"))
		return seen, n.kubectl("get", "guesthardware", "same", "-o", "jsonpath={.spec.hardware.digest} {.spec.hardware}")
	}
	seen, recorded := boot("node-1")
	uuid := n.kubectl("get", "guesthardware", "same", "-o", "jsonpath={.spec.hardware.uuid}")
	mac := n.kubectl("get", "vmi", "same", "-o", "jsonpath={.status.interfaces[0].mac}")
	if uuid == "" || mac == "" || !strings.Contains(seen, "dmi product_uuid="+uuid) || !strings.Contains(seen, " mac="+mac) {
		t.Errorf("the guest does not see UUID '%s' and MAC address '%s':\n%s", uuid, mac, seen)
	}
	seenAgain, recordedAgain := boot("node-2")
	if diff := cmp.Diff(seen, seenAgain); diff != "" {
		t.Errorf("on the second node the guest sees other hardware (-first +second):\n%s", diff)
	}
	if recordedAgain != recorded || len(strings.Fields(recorded)[0]) < 32 {
		t.Errorf("the record was\n%s\nand on the second node it is\n%s", recorded, recordedAgain)
	}
	t.Logf("the guest sees %d facts of hardware, byte for byte the same on both nodes", strings.Count(seen, "\n"))
}
