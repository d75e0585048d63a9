package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "kubevirt.io/api/core/v1"
)

// noted is the time within which what keeps a guest from starting must be said, and what was missing must be noticed: less than the 10 s after which Kiln tries
// again what was refused. On an idle machine it is said within a second or two, which the test prints.
const noted = 9 * time.Second

// calls is how many calls of kubectl one after the other lie between an event and its observation: apply, the reads of the VM and its events, and a poll.
const calls = 5

// plain is a VM of firmware alone with more fields of its spec and of its devices.
func plain(name, spec, devices string) string {
	return virtualMachine(name, only("node-1")+`
terminationGracePeriodSeconds: 0
domain:
  memory: {guest: 64Mi}
  devices: {autoattachPodInterface: false`+devices+`}
`+spec)
}

// withDomain is a VM of firmware alone with a field of its domain.
func withDomain(name, field string) string {
	return strings.Replace(plain(name, "", ""), "memory: {guest: 64Mi}", "memory: {guest: 64Mi}\n        "+field, 1)
}

// withVolume is a VM of firmware alone with a disk of a volume.
func withVolume(name, source string) string {
	return plain(name, "volumes: [{name: a, "+source+"}]", ", disks: [{name: a, disk: {bus: virtio}}]")
}

// hindered is a cause for which a guest does not start, and what a user sees of it.
type hindered struct {
	name, manifest string
	status         v1.VirtualMachinePrintableStatus
	// event is the reason of the VM's Warning event, message is in condition Ready.
	event, message string
	// slow is set where kubelet, the container runtime or libvirt must have tried.
	slow bool
	// comes is what makes the guest run; empty where nothing of the cluster can.
	comes string
}

const newClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits}
provisioner: example.com/nobody
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: unbound}
spec: {accessModes: [ReadWriteOnce], storageClassName: waits, resources: {requests: {storage: 8Mi}}}
`

// TestWhyGuestsDoNotStart: for each cause STATUS has KubeVirt's word, and condition Ready and a Warning event of the VM say what is missing. The guest runs
// soon after that has come.
func TestWhyGuestsDoNotStart(t *testing.T) {
	n := newTenant(t, "hindered")
	t.Parallel()
	n.apply(newClass)
	t.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "delete", "storageclass", "waits"); err != nil {
			t.Error(err, out)
		}
	})
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: later}\nstringData: {userdata: a}\n"
	for _, c := range []hindered{
		{name: "claim", manifest: withVolume("claim", "persistentVolumeClaim: {claimName: none}"), status: v1.VirtualMachineStatusPvcNotFound,
			event: "FailedPvcNotFound", message: "no PersistentVolumeClaim 'none' in this namespace"},
		{name: "datavolume", manifest: withVolume("datavolume", "dataVolume: {name: disk}") + `  dataVolumeTemplates:
  - {metadata: {name: disk}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}
`, status: v1.VirtualMachineStatusStopped, event: "FailedDataVolumeCreate", message: "install Containerized Data Importer"},
		{name: "binding", manifest: withVolume("binding", "persistentVolumeClaim: {claimName: unbound}"),
			status: v1.VirtualMachineStatusWaitingForVolumeBinding, event: "WaitingForVolumeBinding", message: "waits for PersistentVolumeClaim 'unbound'"},
		{name: "instancetype", manifest: virtualMachine("instancetype", "domain: {devices: {}}") + "  instancetype: {name: nosuch}\n",
			status: v1.VirtualMachineStatusStopped, event: "FailedFindInstancetype", message: "'nosuch'"},
		{name: "secret", manifest: withVolume("secret", "cloudInitNoCloud: {secretRef: {name: later}}"), status: v1.VirtualMachineStatusUnschedulable,
			event: "NotPlaceable", message: "no Secret 'later' in this namespace", comes: secret},
		{name: "configmap", manifest: withVolume("configmap", "configMap: {name: later}"), status: v1.VirtualMachineStatusUnschedulable,
			event: "NotPlaceable", message: "no ConfigMap 'later' in this namespace",
			comes: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\ndata: {a: b}\n"},
		{name: "account", manifest: withVolume("account", "serviceAccount: {serviceAccountName: later}"), status: v1.VirtualMachineStatusUnschedulable,
			event: "NotPlaceable", message: "no ServiceAccount 'later' in this namespace",
			comes: "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: later}\n"},
		{name: "cpus", manifest: withDomain("cpus", "resources: {requests: {cpu: 500}}"),
			status: v1.VirtualMachineStatusUnschedulable, event: "Unschedulable", message: "Insufficient cpu"},
		{name: "image", manifest: withVolume("image", "containerDisk: {image: '127.0.0.1:1/none:1'}"), status: v1.VirtualMachineStatusErrImagePull,
			event: "ErrImagePull", message: "127.0.0.1:1/none:1", slow: true},
		{name: "model", manifest: withDomain("model", "cpu: {model: Haswel}"),
			status: v1.VirtualMachineStatusCrashLoopBackOff, event: "StartFailed", message: "Haswel", slow: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &tenant{t, n.namespace}
			n.hinders(c)
		})
	}
}

// TestQuotaIsRaised: the VMI names the quota that forbids its pod, and the guest runs soon after the quota is raised.
func TestQuotaIsRaised(t *testing.T) {
	n := newTenant(t, "quota")
	t.Parallel()
	n.apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: 0}}\n")
	n.eventually("the quota is in force", func() (string, bool) {
		out := n.kubectl("get", "resourcequota", "none", "-o", "jsonpath={.status.hard.pods}")
		return out, out == "0"
	})
	n.hinders(hindered{name: "quota", manifest: plain("quota", "", ""), status: v1.VirtualMachineStatusUnschedulable, event: "FailedCreate",
		message: "exceeded quota: none", comes: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: 1}}\n"})
}

// hinders makes a VM and checks what is said of it, and then that its guest runs.
func (n *tenant) hinders(c hindered) {
	n.Helper()
	begun := time.Now()
	n.apply(c.manifest)
	n.eventually("STATUS, Ready and an event say why", func() (string, bool) {
		vm := n.readVM(c.name)
		ready := readyOf(vm)
		events := n.kubectl("get", "events", "-o", "jsonpath={.items[*].type}",
			"--field-selector=involvedObject.kind=VirtualMachine,involvedObject.name="+c.name+",reason="+c.event)
		backOff := c.status == v1.VirtualMachineStatusErrImagePull && vm.Status.PrintableStatus == v1.VirtualMachineStatusImagePullBackOff
		return fmt.Sprintf("%s, Ready %s, events %s", vm.Status.PrintableStatus, ready, events),
			(backOff || vm.Status.PrintableStatus == c.status) && strings.Contains(ready, c.message) && strings.HasPrefix(events, "Warning")
	})
	n.took("it is said", begun, c.slow)
	if c.comes == "" {
		return
	}
	begun = time.Now()
	n.apply(c.comes)
	n.eventually("the pod is made", func() (string, bool) {
		out := n.kubectl("get", "pod", "guest-"+c.name, "--ignore-not-found", "-o", "name")
		return out, out != ""
	})
	n.took("the pod is made after what was missing", begun, false)
	n.phase(c.name, "Running")
	n.eventually("nothing is said any more", func() (string, bool) {
		vm := n.readVM(c.name)
		return fmt.Sprintf("%s, Ready %s", vm.Status.PrintableStatus, readyOf(vm)),
			vm.Status.PrintableStatus == v1.VirtualMachineStatusRunning && vm.Status.Ready
	})
}

// took prints how long something took, and fails if that is longer than the interval at which Kiln tries again what was refused. The time of some calls of
// kubectl does not count, which is a tenth of a second on an idle machine, and a second where other tests run.
func (n *tenant) took(what string, begun time.Time, slow bool) {
	n.Helper()
	took := time.Since(begun).Round(100 * time.Millisecond)
	called := time.Now()
	n.kubectl("get", "vm", "-o", "name")
	call := time.Since(called).Round(100 * time.Millisecond)
	n.Logf("%s after %s; a call of kubectl takes %s", what, took, call)
	if took-calls*call > noted && !slow {
		n.Errorf("%s after %s only, while a call of kubectl takes %s", what, took, call)
	}
}

func (n *tenant) readVM(name string) *v1.VirtualMachine {
	n.Helper()
	vm := &v1.VirtualMachine{}
	if err := json.Unmarshal([]byte(n.kubectl("get", "vm", name, "-o", "json")), vm); err != nil {
		n.Fatal(err)
	}
	return vm
}

// readyOf returns reason and message of condition Ready.
func readyOf(vm *v1.VirtualMachine) string {
	for _, c := range vm.Status.Conditions {
		if c.Type == v1.VirtualMachineReady {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// TestWebhookIsAway: while the webhook does not answer, a VM says that its guest is not made for that, and others can be stopped. The guest is made soon after
// the webhook answers.
func TestWebhookIsAway(t *testing.T) {
	n := newTenant(t, "away")
	n.apply(plain("again", "", "") + plain("other", "", ""))
	n.phase("again", "Running")
	n.phase("other", "Running")
	replicas := n.kubectl("get", "deployment", "kiln-webhook", "--namespace=kiln-system", "-o", "jsonpath={.spec.replicas}")
	scale := func(to string) {
		out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "scale", "deployment/kiln-webhook", "--namespace=kiln-system", "--replicas="+to)
		if err != nil {
			t.Fatal(err, out)
		}
	}
	t.Cleanup(func() { scale(replicas) })
	scale("0")
	n.eventually("the webhook is gone", func() (string, bool) {
		out := n.kubectl("get", "pods", "--namespace=kiln-system", "--selector=app.kubernetes.io/name=kiln-webhook", "-o", "name")
		return out, out == ""
	})
	n.kubectl("delete", "vmi", "again", "--wait=false")
	n.eventually("the VM says so", func() (string, bool) {
		vm := n.readVM("again")
		return readyOf(vm), vm.Status.PrintableStatus == v1.VirtualMachineStatusStopped && strings.Contains(readyOf(vm), "failed calling webhook")
	})
	n.kubectl("patch", "vm", "other", "--type=merge", `-p={"spec":{"runStrategy":"Halted"}}`)
	n.eventually("the other VM has stopped", func() (string, bool) {
		vm := n.readVM("other")
		return string(vm.Status.PrintableStatus), vm.Status.PrintableStatus == v1.VirtualMachineStatusStopped && !vm.Status.Created
	})
	scale(replicas)
	n.kubectl("wait", "deployment/kiln-webhook", "--namespace=kiln-system", "--for=condition=Available", "--timeout=5m")
	begun := time.Now()
	n.eventually("the guest is made", func() (string, bool) {
		out := n.kubectl("get", "vmi", "again", "--ignore-not-found", "-o", "name")
		return out, out != ""
	})
	n.took("the guest is made after the webhook answers", begun, false)
	n.phase("again", "Running")
}
