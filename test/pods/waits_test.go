package pods

import (
	"fmt"
	"strings"
	"testing"
)

// TestClaimComesLate: STATUS, condition Ready and an event of the VM say that a claim is missing. The guest starts when the claim is there.
func TestClaimComesLate(t *testing.T) {
	n := newTenant(t, "late")
	t.Parallel()
	n.apply(virtualMachine("late", only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 64Mi}
  devices: {autoattachPodInterface: false, disks: [{name: file, disk: {bus: virtio}}]}
volumes: [{name: file, persistentVolumeClaim: {claimName: file}}]
`))
	n.eventually("the VM says that the claim is missing", func() (string, bool) {
		out := n.kubectl("get", "vm", "late", "-o", `jsonpath={.status.printableStatus} {.status.conditions[?(@.type=="Ready")].message}`)
		return out, strings.HasPrefix(out, "ErrorPvcNotFound ") && strings.Contains(out, "no PersistentVolumeClaim 'file' in this namespace")
	})
	n.eventually("an event of the VM says so", func() (string, bool) {
		out := n.kubectl("get", "events", "--field-selector=involvedObject.kind=VirtualMachine,reason=FailedPvcNotFound", "-o", "jsonpath={.items[*].type}")
		return out, out == "Warning"
	})
	n.fileClaim("file")
	n.phase("late", "Running")
}

// TestDeletedPodIsNoCrash: a guest whose pod somebody deletes starts again at once. It is not counted, and events of the VM say what happened.
func TestDeletedPodIsNoCrash(t *testing.T) {
	n := newTenant(t, "deleted")
	t.Parallel()
	n.apply(virtualMachine("deleted", only("node-1")+`
terminationGracePeriodSeconds: 0
domain: {memory: {guest: 64Mi}, devices: {autoattachPodInterface: false}}
`))
	n.phase("deleted", "Running")
	first := n.kubectl("get", "vmi", "deleted", "-o", "jsonpath={.metadata.uid}")
	n.kubectl("delete", "pod", "guest-deleted", "--wait=false")
	n.eventually("another guest runs", func() (string, bool) {
		out := n.kubectl("get", "vmi", "--ignore-not-found", "deleted", "-o", "jsonpath={.metadata.uid} {.status.phase}")
		return out, strings.HasSuffix(out, " Running") && !strings.HasPrefix(out, first)
	})
	if counted := n.kubectl("get", "vm", "deleted", "-o", "jsonpath={.status.startFailure}"); counted != "" {
		t.Errorf("the end is counted: %s", counted)
	}
	n.eventually("an event of the VM says so", func() (string, bool) {
		out := n.kubectl("get", "events", "--field-selector=involvedObject.kind=VirtualMachine", "-o", "jsonpath={.items[*].reason}")
		return out, strings.Contains(out, "PodDeleted") && !strings.Contains(out, "CrashLoopBackOff")
	})
	for _, reason := range []string{"Created", "Started"} {
		selector := "--field-selector=involvedObject.kind=VirtualMachineInstance,reason=" + reason
		if out := n.kubectl("get", "events", selector, "-o", "jsonpath={.items[*].type}"); out == "" {
			t.Errorf("no event '%s' of the VMIs", reason)
		}
	}
}

// TestInterfaceWithoutPorts: a guest whose interface lists no ports starts, although this machine may limit open files, and is reached at a port that nobody
// listed.
func TestInterfaceWithoutPorts(t *testing.T) {
	n := newTenant(t, "portless")
	t.Parallel()
	n.apply(virtualMachine("portless", only("node-1")+`
domain:
  memory: {guest: 128Mi}
  firmware: {`+kernelBoot("kiln.serve=8080")+`}
  devices: {interfaces: [{name: default, masquerade: {}}]}
`+podNetwork))
	n.phase("portless", "Running")
	n.console("portless", "KILN-SERVES guest at ")
	url := "http://" + n.kubectl("get", "vmi", "portless", "-o", "jsonpath={.status.interfaces[0].ipAddress}") + ":8080"
	n.eventually("the guest answers", func() (string, bool) {
		body, err := n.fetch(url)
		return fmt.Sprint(body, err), err == nil && strings.Contains(body, "guest at ")
	})
}

// TestRemovedInterface: a VM whose interface is removed while its guest runs has the default one at its next start, which lists no ports, and starts.
func TestRemovedInterface(t *testing.T) {
	n := newTenant(t, "removed")
	t.Parallel()
	n.apply(virtualMachine("removed", only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 64Mi}
  devices: {`+nic+`}
`+podNetwork))
	n.phase("removed", "Running")
	first := n.kubectl("get", "vmi", "removed", "-o", "jsonpath={.metadata.uid}")
	n.kubectl("patch", "vm", "removed", "--type=merge", `-p={"spec":{"template":{"spec":{"networks":null,"domain":{"devices":{"interfaces":null}}}}}}`)
	n.restart("removed")
	n.eventually("another guest runs", func() (string, bool) {
		out := n.kubectl("get", "vmi", "--ignore-not-found", "removed", "-o",
			"jsonpath={.metadata.uid} {.spec.domain.devices.interfaces[*].name} {.spec.domain.devices.interfaces[*].ports} {.status.phase}")
		return out, strings.HasSuffix(out, " default  Running") && !strings.HasPrefix(out, first)
	})
}
