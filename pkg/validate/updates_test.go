package validate_test

var updatesCases = []testCase{
	{
		why:   "a user makes a VM the owner",
		rule:  "vmi/owner",
		given: vmi("metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u}]}"),
		want:  forbidden("metadata.ownerReferences[0]"),
	},
	{
		why:  "another kind may own it",
		rule: "vmi/owner",
		given: vmi(`
metadata:
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, name: a, uid: u}]
`),
	},
	{
		why:   "a kind of the name in another group may own it",
		rule:  "vmi/owner",
		given: vmi("metadata: {ownerReferences: [{apiVersion: example.org/v1, kind: VirtualMachine, name: a, uid: u}]}"),
	},
	{
		why:   "a version that is none names no VM",
		rule:  "vmi/owner",
		given: vmi("metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1/x, kind: VirtualMachine, name: a, uid: u}]}"),
	},
	{
		why:   "an update adds a VM to the owners",
		rule:  "vmi/owner",
		given: vmiChange(user, ownedByPod, ownedByBoth),
		want:  forbidden("metadata.ownerReferences[1]"),
	},
	{
		why:   "an update lets the VM go",
		rule:  "vmi/owner",
		given: vmiChange(user, ownedByVM, ownedByNone),
		want:  forbidden("metadata.ownerReferences"),
	},
	{
		why:  "the VM of another UID is another VM",
		rule: "vmi/owner",
		given: vmiChange(user, ownedByVM,
			"metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: w}]}"),
		want: forbidden("metadata.ownerReferences[0]", "metadata.ownerReferences"),
	},
	{
		why:  "the VM of another name is another VM",
		rule: "vmi/owner",
		given: vmiChange(user, ownedByVM,
			"metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: b, uid: u}]}"),
		want: forbidden("metadata.ownerReferences[0]", "metadata.ownerReferences"),
	},
	{
		why:  "the VM of another version is another owner",
		rule: "vmi/owner",
		given: vmiChange(user, ownedByVM,
			"metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1alpha3, kind: VirtualMachine, name: a, uid: u}]}"),
		want: forbidden("metadata.ownerReferences[0]", "metadata.ownerReferences"),
	},
	{
		why:  "the VM becomes the controlling owner",
		rule: "vmi/owner",
		given: vmiChange(user, ownedByVM,
			"metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u, controller: true}]}"),
		want: forbidden("metadata.ownerReferences[0]", "metadata.ownerReferences"),
	},
	{
		why:  "a Pod turns into the VM of its name",
		rule: "vmi/owner",
		given: vmiChange(user, "metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: Pod, name: a, uid: u}]}",
			ownedByVM),
		want: forbidden("metadata.ownerReferences[0]"),
	},
	{
		why:  "blockOwnerDeletion is the garbage collector's",
		rule: "vmi/owner",
		given: vmiChange(user, "metadata: {ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: u, blockOwnerDeletion: true}]}",
			ownedByVM),
	},
	{
		why:    "a controller makes a VM the owner",
		rule:   "vmi/owner",
		given:  vmiChange(controller, "", ownedByVM),
		limits: accounts,
	},
	{
		why:    "the garbage collector lets the VM go",
		rule:   "vmi/owner",
		given:  vmiChange(collector, ownedByVM, ownedByNone),
		limits: accounts,
	},
	{
		why:    "the garbage collector makes no owners",
		rule:   "vmi/owner",
		given:  vmiChange(collector, "", ownedByVM),
		limits: accounts,
		want:   forbidden("metadata.ownerReferences[0]"),
	},
	{
		why:   "a Pod that owned it goes",
		rule:  "vmi/owner",
		given: vmiChange(user, ownedByPod, ownedByNone),
	},
	{
		why:   "anything in the spec",
		rule:  "update/spec",
		given: vmiChange(user, "", "spec: {hostname: other}"),
		want:  forbidden("spec"),
	},
	{
		why:    "a controller may not either",
		rule:   "update/spec",
		given:  vmiChange(controller, "", "spec: {hostname: other}"),
		limits: accounts,
		want:   forbidden("spec"),
	},
	{
		why:   "a user shortens the grace period of a guest that runs",
		rule:  "update/spec",
		given: vmiChange(user, "", "spec: {terminationGracePeriodSeconds: 1}"),
		want:  forbidden("spec"),
	},
	{
		why:    "a controller does, for 'virtctl stop --grace-period'",
		rule:   "update/spec",
		given:  vmiChange(controller, "", "spec: {terminationGracePeriodSeconds: 1}"),
		limits: accounts,
	},
	{
		why:    "and nothing else with it",
		rule:   "update/spec",
		given:  vmiChange(controller, "", "spec: {terminationGracePeriodSeconds: 1, hostname: other}"),
		limits: accounts,
		want:   forbidden("spec"),
	},
	{
		why:   "the same memory, written otherwise",
		rule:  "update/spec",
		given: vmiChange(user, "", "spec: {domain: {memory: {guest: 1024Mi}}}"),
	},
	{
		why:   "the identity is set",
		rule:  "update/annotation",
		given: vmiChange(user, "", "metadata: {annotations: {kilnvm.io/identity: x}}"),
		want:  forbidden("metadata.annotations[kilnvm.io/identity]"),
	},
	{
		why:   "the pins are taken away",
		rule:  "update/annotation",
		given: vmiChange(user, `metadata: {annotations: {kilnvm.io/pins: ""}}`, "metadata: {annotations: null}"),
		want:  forbidden("metadata.annotations[kilnvm.io/pins]"),
	},
	{
		why:   "the pins are changed",
		rule:  "update/annotation",
		given: vmiChange(user, "metadata: {annotations: {kilnvm.io/pins: a}}", "metadata: {annotations: {kilnvm.io/pins: b}}"),
		want:  forbidden("metadata.annotations[kilnvm.io/pins]"),
	},
	{
		why:   "they stay, and another is set",
		rule:  "update/annotation",
		given: vmiChange(user, "metadata: {annotations: {kilnvm.io/pins: a}}", "metadata: {annotations: {mine: b}}"),
	},
	{
		why:    "a controller sets the identity",
		rule:   "update/annotation",
		given:  vmiChange(controller, "", "metadata: {annotations: {kilnvm.io/identity: x}}"),
		limits: accounts,
	},
}
