package manifests_test

import (
	"fmt"
	"strings"
)

// Accounts of KubeVirt, where it is in namespace kubevirt.
const (
	virtAPI        = "system:serviceaccount:kubevirt:kubevirt-apiserver"
	virtController = "system:serviceaccount:kubevirt:kubevirt-controller"
	virtHandler    = "system:serviceaccount:kubevirt:kubevirt-handler"
	virtSync       = "system:serviceaccount:kubevirt:kubevirt-synchronization-controller"
	virtOperator   = "system:serviceaccount:kubevirt:kubevirt-operator"
)

// request is a dry run: nothing of it stays.
type request struct {
	why, by, input string
	args           []string
	// waits says that it is refused while nobody answers and a GuestPolicy denies; of a pod, also if none does. Asked are the paths that are asked, where
	// somebody answers.
	waits bool
	asked []string
}

var (
	mutatesVM, judgesVM   = "/mutate/virtualmachines", "/validate/virtualmachines"
	mutatesVMI, judgesVMI = "/mutate/virtualmachineinstances", "/validate/virtualmachineinstances"
)

// kubeVirtWrites is what the components of KubeVirt v1.9.0 write: pkg/virt-api/rest/lifecycle.go, pkg/virt-controller/watch and pkg/virt-handler.
var kubeVirtWrites = []request{
	{why: "virtctl stop", by: virtAPI, args: patched("vm/web", `{"spec":{"runStrategy":"Halted"}}`)},
	{why: "virtctl start", by: virtAPI, args: patched("vm/old", `{"spec":{"runStrategy":"Always"}}`)},
	{why: "virtctl stop of a VM with another field", by: virtAPI, args: patched("vm/web", `{"spec":{"runStrategy":null,"running":false}}`)},
	{why: "virtctl restart", by: virtAPI, args: patched("vm/web", `{"status":{"stateChangeRequests":[{"action":"Stop"},{"action":"Start"}]}}`, "status")},
	{why: "virtctl stop with a grace period", by: virtAPI, args: patched("vmi/web", `{"spec":{"terminationGracePeriodSeconds":0}}`)},
	{why: "virtctl migrate, on the VMI", by: virtAPI, args: patched("vmi/web", `{"status":{"evacuationNodeName":""}}`)},
	{why: "the status of a VM", by: virtController, args: patched("vm/web", `{"status":{"ready":true,"printableStatus":"Running"}}`, "status")},
	{why: "the version of the API that it has seen", by: virtController,
		args: patched("vm/web", `{"metadata":{"annotations":{"kubevirt.io/latest-observed-api-version":"v1"}}}`)},
	{why: "its finalizer", by: virtController, args: patched("vm/web", `{"metadata":{"finalizers":["kubevirt.io/virtualMachineControllerFinalize"]}}`)},
	{why: "the topology of the guest, in the template", by: virtController,
		args: patched("vm/web", `{"spec":{"template":{"metadata":{"annotations":{"kubevirt.io/pci-topology-version":"v3"}}}}}`)},
	{why: "a start of a VM", by: virtController, input: aVMI("old", "VirtualMachine"), args: []string{"create", "-f", "-"},
		asked: []string{mutatesVMI, judgesVMI}},
	{why: "a node for a VMI", by: virtController, args: patched("vmi/web",
		`{"metadata":{"labels":{"kubevirt.io/nodeName":"n1"}},"status":{"phase":"Scheduled","nodeName":"n1"}}`)},
	{why: "a CPU that is plugged in", by: virtController, args: patched("vmi/web", `{"spec":{"domain":{"cpu":{"sockets":2}}}}`)},
	{why: "a VMI that gets an owner", by: virtController, args: patched("vmi/bare", `{"metadata":{"ownerReferences":[`+ownedBy("VirtualMachine")+`]}}`)},
	{why: "a target of a migration", by: virtController, args: patched("vmi/web",
		`{"metadata":{"labels":{"kubevirt.io/migrationTargetNodeName":"n2"}},"status":{"migrationState":{"targetNode":"n2"}}}`)},
	{why: "a migration between clusters", by: virtSync, args: patched("vmi/web", `{"metadata":{"labels":{"kubevirt.io/nodeName":"n3"}}}`)},
	{why: "what the node reports", by: virtHandler,
		args: patched("vmi/web", `{"metadata":{"labels":{"kubevirt.io/nodeName":"n2"}},"status":{"phase":"Running"}}`)},
	{why: "... of a guest with recorded addresses that does not run yet", by: virtHandler, args: patched("vmi/recorded", `{"status":{"phase":"Scheduled"}}`)},
	{why: "... that runs", by: virtHandler, args: patched("vmi/recorded", `{"status":{"phase":"Running"}}`), asked: []string{mutatesVMI}},
	{why: "a status of such a guest", by: virtController, args: patched("vmi/recorded", `{"status":{"phase":"Running"}}`)},
	{why: "KubeVirt's catalog", by: virtOperator, input: anInstancetype("u1.small"), args: []string{"create", "-f", "-"}},
	{why: "an object that leaves KubeVirt's catalog", by: virtOperator, args: []string{"delete", "virtualmachineclusterinstancetype", "u0.old"}},
	{why: "... that is kept while it is used", by: virtOperator, args: []string{"delete", "virtualmachineclusterinstancetype", "u0.kept"}},
}

// othersWrite is what a tenant decides, though an account of KubeVirt's may write it.
var othersWrite = []request{
	{why: "a new VM", by: "eve", input: aVM("new", "Halted"), args: []string{"create", "-f", "-"}, waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "a VM of a pool", by: virtController, input: aVM("new", "Halted"), args: []string{"create", "-f", "-"}, waits: true,
		asked: []string{mutatesVM, judgesVM}},
	{why: "a stop", by: "eve", args: patched("vm/web", `{"spec":{"runStrategy":"Halted"}}`)},
	{why: "an edit", by: "eve", args: patched("vm/web", `{"spec":{"runStrategy":"Manual"}}`), waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "KubeVirt's account in another namespace", by: "system:serviceaccount:shop:kubevirt-apiserver",
		args: patched("vm/web", `{"spec":{"runStrategy":"Manual"}}`), waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "another account of KubeVirt's namespace", by: "system:serviceaccount:kubevirt:kubevirt-apiserver2",
		args: patched("vm/web", `{"spec":{"runStrategy":"Manual"}}`), waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "virtctl addvolume --persist", by: virtAPI, args: patched("vm/web",
		`{"spec":{"template":{"spec":{"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"d"}}]}}}}`), waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "an instancetype of a restore", by: virtController, args: patched("vm/web", `{"spec":{"instancetype":{"name":"huge"}}}`), waits: true,
		asked: []string{mutatesVM, judgesVM}},
	{why: "a sidecar of a restore", by: virtController, args: patched("vm/web",
		`{"spec":{"template":{"metadata":{"annotations":{"hooks.kubevirt.io/hookSidecars":"[]"}}}}}`), waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "labels of a restore", by: virtController, args: patched("vm/web", `{"spec":{"template":{"metadata":{"labels":{"tier":"web"}}}}}`), waits: true,
		asked: []string{mutatesVM, judgesVM}},
	{why: "pins of a restore", by: virtController, args: patched("vm/web", `{"metadata":{"annotations":{"kilnvm.io/pins":"{}"}}}`), waits: true,
		asked: []string{mutatesVM, judgesVM}},
	{why: "labels of a VM", by: virtController, args: patched("vm/web", `{"metadata":{"labels":{"tier":"web"}}}`), waits: true,
		asked: []string{mutatesVM, judgesVM}},
	{why: "a pool that takes a VM", by: virtController, args: patched("vm/web", `{"metadata":{"ownerReferences":[`+ownedBy("VirtualMachinePool")+`]}}`),
		waits: true, asked: []string{mutatesVM, judgesVM}},
	{why: "a VMI", by: "eve", input: aVMI("new", ""), args: []string{"create", "-f", "-"}, waits: true, asked: []string{mutatesVMI, judgesVMI}},
	{why: "a VMI that claims to be of a VM", by: "eve", input: aVMI("new", "VirtualMachine"), args: []string{"create", "-f", "-"}, waits: true,
		asked: []string{mutatesVMI, judgesVMI}},
	{why: "a VMI of a replica set", by: virtController, input: aVMI("new", "VirtualMachineInstanceReplicaSet"), args: []string{"create", "-f", "-"}, waits: true,
		asked: []string{mutatesVMI, judgesVMI}},
	{why: "an edit of a VMI", by: "eve", args: patched("vmi/web", `{"spec":{"domain":{"cpu":{"sockets":2}}}}`), waits: true, asked: []string{judgesVMI}},
	{why: "a deletion", by: "eve", args: []string{"delete", "virtualmachineclusterinstancetype", "u0.old"}, asked: []string{"/validate/deletions"}},
	{why: "an instancetype", by: "eve", input: anInstancetype("mine"), args: []string{"create", "-f", "-"}, asked: []string{"/validate/instancetypes"}},
	// As without Kiln: KubeVirt's RBAC and webhooks say who writes statuses.
	{why: "a status that an administrator mends", by: "eve", args: patched("vm/web", `{"status":{"ready":false}}`, "status")},
	{why: "an annotation, which a policy may be about", by: "eve", args: patched("vm/web", `{"metadata":{"annotations":{"example.com/note":"x"}}}`), waits: true,
		asked: []string{judgesVM}},
	{why: "an annotation of KubeVirt's", by: virtController, args: patched("vm/web", `{"metadata":{"annotations":{"example.com/note":"x"}}}`)},
	{why: "a finalizer", by: "eve", args: patched("vm/web", `{"metadata":{"finalizers":["example.com/hold"]}}`)},
}

// podWrites are creates of pods, with component beside-kubevirt/plugin.
var podWrites = []request{
	{why: "the pod of a guest with a record", by: virtController, input: aPod("virt-launcher", "", recorded), args: created, waits: true, asked: mutatesPod},
	{why: "... that may start without it", by: virtController, input: aPod("virt-launcher", "", recorded+mayFail), args: created, asked: mutatesPod},
	{why: "... whose annotation says something else", by: virtController, input: aPod("virt-launcher", "", recorded+`, "kilnvm.io/hardware-failure": "x"`),
		args: created, waits: true, asked: mutatesPod},
	{why: "the pod of a guest without a record", by: virtController, input: aPod("virt-launcher", "", `"a": "b"`), args: created},
	{why: "... that may fail", by: virtController, input: aPod("virt-launcher", "", `"a": "b"`+mayFail), args: created},
	{why: "the target of a migration", by: virtController, input: aPod("virt-launcher", `, "kubevirt.io/migrationJobUID": "m"`, recorded), args: created},
	{why: "... of a guest that may fail", by: virtController, input: aPod("virt-launcher", `, "kubevirt.io/migrationJobUID": "m"`, recorded+mayFail),
		args: created},
	{why: "another pod of virt-controller's", by: virtController, input: aPod("hotplug-disk", "", recorded), args: created},
	{why: "a tenant's pod", by: "eve", input: aPod("virt-launcher", "", recorded), args: created},
	{why: "a tenant's pod that may fail", by: "eve", input: aPod("virt-launcher", "", recorded+mayFail), args: created},
	{why: "a pod of another account of KubeVirt's", by: virtHandler, input: aPod("virt-launcher", "", recorded), args: created},
	{why: "a pod of an account of another namespace", by: "system:serviceaccount:shop:kubevirt-controller", input: aPod("virt-launcher", "", recorded),
		args: created},
	{why: "an account that looks like KubeVirt's", by: "system:serviceaccount:kubevirt:kubevirt-controller2", input: aPod("virt-launcher", "", recorded),
		args: created},
}

const recorded, mayFail = `"kilnvm.io/frontend": "{}"`, `, "kilnvm.io/hardware-failure": "Ignore"`

var created, mutatesPod = []string{"create", "-f", "-"}, []string{"/mutate/pods"}

// aPod is a pod with a value of KubeVirt's label, more labels, and annotations.
func aPod(app, labels, annotations string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "virt-launcher-", "namespace": "default",
		"labels": {"kubevirt.io": %q%s}, "annotations": {%s}}, "spec": {"containers": [{"name": "compute", "image": "a"}]}}`, app, labels, annotations)
}

// patched are the arguments of a merge patch.
func patched(what, patch string, subresource ...string) []string {
	args := []string{"patch", what, "--type=merge", "-p=" + patch}
	for _, name := range subresource {
		args = append(args, "--subresource="+name)
	}
	return args
}

func aVM(name, strategy string) string {
	return fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": %q, "namespace": "default"},
		"spec": {"runStrategy": %q, "template": {"spec": {"domain": {"devices": {}}}}}}`, name, strategy)
}

// aVMI is a VMI with a controller of this kind; none if it is empty.
func aVMI(name, owner string) string {
	if owner != "" {
		owner = ownedBy(owner)
	}
	return fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": {"name": %q, "namespace": "default", "ownerReferences": [%s]}, "spec": {"domain": {"devices": {}}}}`, name, owner)
}

func ownedBy(kind string) string {
	return fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": %q, "name": "old", "uid": "u", "controller": true}`, kind)
}

// aRecordedVMI is a VMI with recorded addresses of interfaces.
func aRecordedVMI(name string) string {
	return strings.Replace(aVMI(name, ""), `"namespace"`, `"annotations": {"kilnvm.io/interface-addresses": "default"}, "namespace"`, 1)
}

func anInstancetype(name string) string {
	return fmt.Sprintf(`{"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype", "metadata": {"name": %q},
		"spec": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}}`, name)
}
