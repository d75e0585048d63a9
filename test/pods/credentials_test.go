package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/nightly"
)

const secretsOfDemo = `
apiVersion: v1
kind: Secret
metadata: {name: passwords}
stringData: {demo: correct horse}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {me: ssh-ed25519 AAAA me@shop}
`

// TestAccessCredentials: condition Placeable of a VM names the missing Secrets of its accessCredentials. When the Secrets exist, QEMU's own
// agent gives the user of a guest in a pod the key and the password. 'virtctl credentials' changes both while the guest runs.
func TestAccessCredentials(t *testing.T) {
	nightly.Only(t) // kubelet updates the files of a Secret about once a minute
	n := newTenant(t, "credentials")
	n.apply(virtualMachine("demo", fmt.Sprintf(`
terminationGracePeriodSeconds: 60
accessCredentials:
- userPassword: {source: {secret: {secretName: passwords}}, propagationMethod: {qemuGuestAgent: {}}}
- sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {qemuGuestAgent: {users: [demo]}}}
domain:
  cpu: {model: qemu64}
  memory: {guest: 384Mi}
  firmware: {%s}
  devices: {disks: [{name: scratch, disk: {bus: virtio}}]}
volumes: [{name: scratch, emptyDisk: {capacity: 16Mi}}]
`, kernelBootOf(agentImage, "kiln.agent=vda"))))
	n.eventually("the VM waits for the Secrets", func() (string, bool) {
		text := n.kubectl("get", "vm", "demo", "-o", `jsonpath={.status.conditions[?(@.type=="Placeable")]}`)
		return text, strings.Contains(text, "no Secret 'passwords' in this namespace") &&
			strings.Contains(text, "accessCredentials[0].userPassword.source.secret.secretName")
	})
	n.apply(secretsOfDemo)
	n.console("demo", "KILN-CREDENTIALS demo:correct horse;ssh-ed25519 AAAA me@shop")
	n.kubectl("wait", "vmi/demo", "--for=condition=AccessCredentialsSynchronized", "--timeout=120s")

	tool := virtctl{n, cluster.Virtctl(n, "../..")}
	for _, line := range []string{"credentials set-password demo --user=demo --password=battery --force",
		"credentials add-ssh-key demo --user=demo --value=BBBB --force"} {
		if output, ok := tool.run(line); !ok {
			t.Fatalf("virtctl %s: %s", line, output)
		}
	}
	n.eventually("the guest has what virtctl has changed", func() (string, bool) {
		log, err := n.reader().log("guest-demo")
		at := strings.LastIndex(log, "KILN-CREDENTIALS ")
		if err != nil || at < 0 {
			return "", false
		}
		line, _, _ := strings.Cut(log[at:], "\r\n")
		return line, strings.HasPrefix(line, "KILN-CREDENTIALS demo:battery;") && strings.Contains(line, "AAAA me@shop") && strings.Contains(line, "BBBB")
	})
	if events := n.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(events, "AccessCredentialsSyncSuccess") {
		t.Errorf("the events are %s", events)
	}
}
