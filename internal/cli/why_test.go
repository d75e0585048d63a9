package cli

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/cli/cmdutil"
)

// whyVM is a VM of KubeVirt whose pod has no node. Its claim is bound.
const whyVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop, uid: vm, finalizers: [kubevirt.io/virtualMachineControllerFinalize]}
spec:
  runStrategy: Always
  instancetype: {name: medium}
  template:
    spec:
      domain: {devices: {}}
      volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]
status: {instancetypeRef: {name: medium, controllerRevisionRef: {name: web-medium}}}
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: web-medium, namespace: shop}
revision: 1
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: root, namespace: shop, uid: claim}
status: {phase: Bound}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: web, namespace: shop, uid: vmi, ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: web, uid: vm, controller: true}]}
spec: {domain: {devices: {}}, volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]}
status: {phase: Scheduling, activePods: {pod: ""}}
---
apiVersion: v1
kind: Pod
metadata: {name: virt-launcher-web-x, namespace: shop, uid: pod, labels: {kubevirt.io: virt-launcher, kubevirt.io/created-by: vmi}}
spec: {containers: []}
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient memory.\e[2J"}]
`

const whyTable = `VirtualMachine shop/web
  admitted          done     VirtualMachine 'web'
  pinned            done     medium, revision web-medium
  guest requested   done     runStrategy Always
  volumes           done     1 claim
  networks          done     no network of Multus
  instance          done     phase Scheduling
  pod               done     Pod 'virt-launcher-web-x'
  scheduled         failed   Pod 'virt-launcher-web-x': 0/3 nodes are available: 3 Insufficient memory. [2J
  containers        not reached
  domain            not reached
  guest             not reached
The guest does not run, because no node has room for its pod: 0/3 nodes are available: 3 Insufficient memory. [2J.
Remedy: Add a node, stop other VMs, or use a smaller instancetype.
By: the owner of the VM, or an administrator of the cluster.
`

// TestWhy: the table of a VM whose pod has no node, by each of its names, and its document.
func TestWhy(t *testing.T) {
	t.Parallel()
	flags := (&apiServer{}).serve(t, whyVM)
	for _, name := range []string{"web", "vm/web", "vmi/web", "VirtualMachine/web"} {
		got := call(t, "", append([]string{"why", name}, flags...)...)
		if cmdutil.ExitStatus(got.err) != 1 || got.out != whyTable || got.errOut != "" {
			t.Errorf("%s: exit status %d, %v %s\n%s, want\n%s", name, cmdutil.ExitStatus(got.err), got.err, got.errOut, got.out, whyTable)
		}
	}
	got := call(t, "", append([]string{"why", "web", "-o", "json"}, flags...)...)
	for _, text := range []string{`"kind": "Why"`, `"object": "VirtualMachine shop/web"`, `"runs": false`, `"state": "Failed"`, `"by": "the owner of the VM, or`} {
		if cmdutil.ExitStatus(got.err) != 1 || !strings.Contains(got.out, text) {
			t.Errorf("%v, no '%s' in\n%s", got.err, text, got.out)
		}
	}
}

// TestWhyWithoutRights: what may not be read is unknown, and hides nothing else.
func TestWhyWithoutRights(t *testing.T) {
	t.Parallel()
	halted := strings.Replace(whyVM[:strings.Index(whyVM, "---\n")], "Always", "Halted", 1)
	copied := strings.Replace(whyVM, "status: {phase: Scheduling,",
		`status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes"}], phase: Scheduling,`, 1)
	for _, c := range []struct {
		name      string
		objects   string
		forbidden []string
		status    int
		lines     []string
	}{
		{"web", whyVM, []string{"pods"}, 1, []string{
			"scheduled         unknown   you may not list pods in namespace 'shop'", "because step 'scheduled' is not known"}},
		{"web", copied, []string{"pods", "events", "kubevirts", "persistentvolumeclaims", "controllerrevisions"}, 1, []string{
			"pinned            unknown   you may not get controllerrevisions.apps in namespace 'shop'",
			"volumes           unknown   you may not get persistentvolumeclaims in namespace 'shop'", "reports 'Unschedulable: 0/1 nodes'"}},
		{"web", whyVM, []string{"virtualmachines"}, 1, []string{
			"admitted          unknown   you may not get virtualmachines in namespace 'shop'", "no node has room"}},
		{"web", halted, nil, 0, []string{"guest requested   not requested", "No guest is requested, because the run strategy of the VM is Halted."}},
		{"web", whyVM, []string{"virtualmachines", "virtualmachineinstances"}, 2, []string{
			"you may not get virtualmachines in namespace 'shop': ask for this right"}},
		{"vm/none", whyVM, nil, 2, []string{"there is no VirtualMachine 'none' in namespace 'shop'"}},
		{"none", whyVM, nil, 2, []string{"there is neither a VirtualMachine nor a VirtualMachineInstance 'none'"}},
		{"pod/web", whyVM, nil, 2, []string{"'pod/web' is not a VM: write vm/web"}},
	} {
		got := call(t, "", append([]string{"why", c.name}, (&apiServer{forbidden: c.forbidden}).serve(t, c.objects)...)...)
		text := got.out
		if got.err != nil {
			text += got.err.Error()
		}
		for _, line := range c.lines {
			if cmdutil.ExitStatus(got.err) != c.status || !strings.Contains(text, line) {
				t.Errorf("%s without %q: exit status %d, want %d; no '%s' in\n%s", c.name, c.forbidden, cmdutil.ExitStatus(got.err), c.status, line, text)
			}
		}
	}
}
