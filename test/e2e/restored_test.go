package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	snapshots "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveNetworks serves the kind of Multus, which need not run.
func serveNetworks(s space) {
	s.Helper()
	s.must(s.kubectl(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {kind: NetworkAttachmentDefinition, plural: network-attachment-definitions, singular: network-attachment-definition}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, "apply", "--server-side", "-f", "-"))
	s.established("network-attachment-definitions.k8s.cni.cncf.io")
}

// networked is a VM with a card on a network of Multus, a disk on a claim, and cloud-init data.
const networked = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: demo, labels: {app: demo}}
spec:
  runStrategy: Always
  instancetype: {name: own, kind: VirtualMachineInstancetype}
  preference: {name: linux.sample}
  template:
    spec:
      nodeSelector: {machine: none}
      domain:
        devices:
          disks: [{name: root}, {name: conf}, {name: scratch}]
          interfaces: [{name: default, masquerade: {}}, {name: lan, bridge: {}}]
      networks: [{name: default, pod: {}}, {name: lan, multus: {networkName: lan}}]
      volumes:
      - {name: root, persistentVolumeClaim: {claimName: root}}
      - {name: conf, cloudInitNoCloud: {userData: x}}
      - {name: scratch, emptyDisk: {capacity: 1Mi}}
`

const (
	lanDefinition = `{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lan}, spec: {config: "{}"}}`
	rootClaim     = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {accessModes: [ReadWriteOnce], ` +
		`resources: {requests: {storage: 1Mi}}}}`
	snapshotting = `{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: %s}, ` +
		`spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %s}}}`
	restoringTo = `{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: %s, annotations: {%s}}, spec: {` +
		`target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: demo}, virtualMachineSnapshotName: %s, targetReadinessPolicy: %s}}`
)

// ran stands for a launcher whose guest has booted with a machine type.
func (s space) ran(machine string) {
	s.Helper()
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	s.claim("demo")
	s.must(s.kubectl("", "patch", "guesthardware", "demo", "--type=merge", "-p="+strings.Replace(booted, "pc-q35-7.2", machine, 1)))
	s.must(s.kubectl("", "patch", "vmi", "demo", "--subresource=status", "--type=merge", `-p={"status":{"phase":"Running"}}`))
}

func (s space) strategy(of string) {
	s.Helper()
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"runStrategy":"`+of+`"}}`))
	if of == "Halted" {
		s.eventually("the VMI is gone", func() bool { return !s.exists("vmi", "demo") })
	}
}

// restore waits for the end of a restore: complete, why it has failed, and what it was made without.
func (s space) restore(name string) (complete bool, failure, changed string) {
	s.Helper()
	s.eventually("restore "+name+" ends", func() bool {
		of := s.get("vmrestore", name)
		complete, _ = field(of, "status", "complete").(bool)
		conditions, _ := field(of, "status", "conditions").([]any)
		failure, changed = "", ""
		for _, c := range conditions {
			c := c.(map[string]any)
			switch c["type"] {
			case "Failure":
				failure = fmt.Sprint(c["reason"], ": ", c["message"])
			case "HardwareChanged":
				changed = fmt.Sprint(c["message"])
			}
		}
		return complete || failure != ""
	})
	return complete, failure, changed
}

// configuration is what a snapshot keeps of the VM of these tests.
func (s space) configuration() map[string]any {
	s.Helper()
	vm, hardware := s.get("vm", "demo"), s.get("guesthardware", "demo")
	unstructured.RemoveNestedField(vm.Object, "spec", "runStrategy")
	return map[string]any{"spec": vm.Object["spec"], "pins": vm.GetAnnotations()[pinsAnnotation], "hardware": hardware.Object["spec"]}
}

// TestSnapshotOfARunningGuest: a NIC is removed, the claim replaced, the instancetype edited and deleted, and the VM restarted twice. The restore brings back
// what was, with another generation ID. With the network gone it is refused, or leaves the card out.
func TestSnapshotOfARunningGuest(t *testing.T) {
	s := newSpace(t)
	serveNetworks(s)
	for _, object := range []string{lanDefinition, fmt.Sprintf(rootClaim, "root"),
		size("own", 1, "128Mi"), networked} {
		s.create(object)
	}
	s.ran("pc-q35-7.2")
	before, generation := s.configuration(), s.get("vmi", "demo").GetAnnotations()["kilnvm.io/generation"]
	s.create(fmt.Sprintf(snapshotting, "first", "demo"))
	s.must(s.kubectl("", "wait", "vmsnapshot/first", "--for=condition=Ready", "--timeout=60s"))
	snapshot := s.get("vmsnapshot", "first")
	if phase := field(snapshot, "status", "phase"); phase != "Succeeded" || fmt.Sprint(field(snapshot, "status", "indications")) !=
		"[Online PartialSnapshot]" || fmt.Sprint(field(snapshot, "status", "snapshotVolumes", "excludedVolumes")) != "[conf scratch root]" {
		t.Errorf("%v", snapshot.Object["status"])
	}
	s.must(s.kubectl("", "create", "role", "contents", "--verb=get,patch", "--resource=virtualmachinesnapshotcontents.snapshot.kubevirt.io"))
	s.must(s.kubectl("", "create", "rolebinding", "contents", "--role=contents", "--group=contents"))
	content := field(snapshot, "status", "virtualMachineSnapshotContentName").(string)
	result := s.kubectl("", "annotate", "vmsnapshotcontent", content, "kilnvm.io/record=x", "--overwrite",
		"--as=system:serviceaccount:kiln-system:kiln-webhook", "--as-group=contents")
	if result.err == nil || !strings.Contains(result.stderr, "may not write VirtualMachineSnapshotContents") {
		t.Errorf("somebody writes the content: %s", result.stderr)
	}

	s.strategy("Halted")
	s.create(fmt.Sprintf(rootClaim, "new"))
	s.must(s.kubectl(size("own", 2, "256Mi"), "replace", "-f", "-"))
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"metadata":{"annotations":{"kilnvm.io/pins":""}},"spec":{"template":{"spec":{
		"domain":{"devices":{"interfaces":[{"name":"default","masquerade":{}}]}},"networks":[{"name":"default","pod":{}}],
		"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"new"}},{"name":"conf","cloudInitNoCloud":{"userData":"x"}},
		{"name":"scratch","emptyDisk":{"capacity":"1Mi"}}]}}}}`))
	s.must(s.kubectl("", "delete", "virtualmachineinstancetype", "own"))
	for _, machine := range []string{"pc-q35-8.0", "pc-q35-9.2"} {
		s.strategy("Always")
		s.ran(machine)
		if machine == "pc-q35-9.2" {
			s.create(fmt.Sprintf(restoringTo, "early", "", "first", "FailImmediate"))
			if complete, failure, _ := s.restore("early"); complete || !strings.Contains(failure, "RestoreTargetNotReady: VirtualMachineInstance 'demo' exists") {
				t.Errorf("a VM that runs: %t, %s", complete, failure)
			}
		}
		s.strategy("Halted")
	}
	if cmp.Equal(before, s.configuration()) {
		t.Fatal("nothing has changed")
	}

	s.create(fmt.Sprintf(restoringTo, "back", "", "first", "WaitGracePeriod"))
	if complete, failure, changed := s.restore("back"); !complete || changed != "" {
		t.Fatalf("%s %s", failure, changed)
	}
	if diff := cmp.Diff(before, s.configuration()); diff != "" {
		t.Errorf("the VM is another one than at the moment of the snapshot:\n%s", diff)
	}
	s.strategy("Always")
	s.eventually("the VM has its VMI", func() bool { return s.exists("vmi", "demo") })
	if now := s.get("vmi", "demo").GetAnnotations()["kilnvm.io/generation"]; now == generation || now == "" {
		t.Errorf("the generation of the guest was '%s' and is '%s'", generation, now)
	}
	s.strategy("Halted")
	s.withoutNetwork()
}

// withoutNetwork restores once more, when the network is gone.
func (s space) withoutNetwork() {
	s.Helper()
	s.must(s.kubectl("", "delete", "network-attachment-definitions.k8s.cni.cncf.io", "lan"))
	before := s.configuration()
	s.create(fmt.Sprintf(restoringTo, "refused", "", "first", "FailImmediate"))
	_, failure, _ := s.restore("refused")
	for _, text := range []string{"NotActivatable: spec.template.spec.networks[1].multus.networkName: Not found", "create this NetworkAttachmentDefinition again",
		"kilnvm.io/leave-out-unavailable"} {
		if !strings.Contains(failure, text) {
			s.Errorf("no '%s' in %s", text, failure)
		}
	}
	if diff := cmp.Diff(before, s.configuration()); diff != "" {
		s.Errorf("a restore that is refused changes the VM:\n%s", diff)
	}
	s.create(fmt.Sprintf(restoringTo, "without", `kilnvm.io/leave-out-unavailable: "true"`, "first", "FailImmediate"))
	complete, failure, changed := s.restore("without")
	if !complete || !strings.Contains(changed, "restored without network 'lan'") {
		s.Fatalf("%s %s", failure, changed)
	}
	if cards := field(s.get("vm", "demo"), "spec", "template", "spec", "domain", "devices", "interfaces").([]any); len(cards) != 1 {
		s.Errorf("the VM has %v", cards)
	}
	s.must(s.kubectl("", "delete", "vmsnapshot", "first", "--timeout=60s"))
	s.eventually("the content goes with its snapshot", func() bool { return len(s.list("vmsnapshotcontent", "")) == 0 })
}

// TestWhoRestores: a restore has the rights of the user who created it, and nobody creates one in another's name.
func TestWhoRestores(t *testing.T) {
	s := newSpace(t)
	s.create(vm("demo"))
	s.create(fmt.Sprintf(snapshotting, "first", "demo"))
	s.must(s.kubectl("", "wait", "vmsnapshot/first", "--for=condition=Ready", "--timeout=60s"))
	s.must(s.kubectl("", "create", "role", "restorer", "--verb=create,get", "--resource=virtualmachinerestores.snapshot.kubevirt.io"))
	s.must(s.kubectl("", "create", "rolebinding", "restorer", "--role=restorer", "--user=eve"))
	forged := `kilnvm.io/asker: '{"username":"system:admin","groups":["system:masters"]}'`
	s.eventually("the role counts, and eve asks", func() bool {
		return s.kubectl(fmt.Sprintf(restoringTo, "eves", forged, "first", "FailImmediate"), "create", "--as=eve", "-f", "-").err == nil
	})
	if complete, failure, _ := s.restore("eves"); complete ||
		!strings.Contains(failure, "NotActivatable: spec.target: Forbidden: 'eve', who created the restore, may not update virtualmachines") {
		t.Errorf("%t %s", complete, failure)
	}
	if result := s.kubectl("", "annotate", "vmrestore", "eves", "kilnvm.io/asker=x", "--overwrite"); result.err == nil ||
		!strings.Contains(result.stderr, "written only by admission") {
		t.Errorf("the asker was changed: %s", result.stderr)
	}
	s.create(fmt.Sprintf(restoringTo, "ours", "", "first", "FailImmediate"))
	if complete, failure, _ := s.restore("ours"); !complete {
		t.Error(failure)
	}
}

// TestSnapshotsAreCounted: the API server's list of one object says how many there are, in each namespace by itself. The quota of snapshots relies on that.
func TestSnapshotsAreCounted(t *testing.T) {
	s, other := newSpace(t), newSpaceOn(t, shared)
	config, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kind := snapshots.SchemeGroupVersion.WithKind("VirtualMachineSnapshotList")
	other.create(fmt.Sprintf(snapshotting, "elsewhere", "absent"))
	for want := range 4 {
		if want > 0 {
			s.create(fmt.Sprintf(snapshotting, fmt.Sprintf("s%d", want), "absent"))
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := live.List(t.Context(), list, client.InNamespace(s.name), client.Limit(1))
		if got := len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)); err != nil || got != want {
			t.Errorf("%d snapshots are counted, want %d: %v", got, want, err)
		}
	}
}

// TestClones: a clone has another identity, is deleted with what it was made by, and never shares a disk.
func TestClones(t *testing.T) {
	s := newSpace(t)
	const cloning = `{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: %s}, spec: {` +
		`source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: demo}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %[1]s-vm}}}`
	s.create(vm("demo"))
	s.create(fmt.Sprintf(cloning, "copy"))
	s.must(s.kubectl("", "wait", "vmclone/copy", "--for=condition=Ready", "--timeout=60s"))
	source, made := s.get("vm", "demo"), s.get("vm", "copy-vm")
	was, is := source.GetAnnotations()["kilnvm.io/identity"], made.GetAnnotations()["kilnvm.io/identity"]
	if is == "" || was == is || source.GetAnnotations()[pinsAnnotation] != made.GetAnnotations()[pinsAnnotation] {
		t.Errorf("identity '%s' of '%s', pins %s of %s", is, was, made.GetAnnotations()[pinsAnnotation], source.GetAnnotations()[pinsAnnotation])
	}
	template := func(of *unstructured.Unstructured) (vm v1.VirtualMachine) { // of the types: a client writes structs that are empty
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of.Object, &vm); err != nil {
			t.Fatal(err)
		}
		return vm
	}
	if diff := cmp.Diff(template(source).Spec, template(made).Spec); diff != "" {
		t.Errorf("the template is another one:\n%s", diff)
	}
	s.eventually("snapshot and restore of the clone are gone", func() bool { return len(s.list("vmsnapshot", ""))+len(s.list("vmrestore", "")) == 0 })

	s.create(fmt.Sprintf(rootClaim, "root"))
	s.must(s.kubectl("", "patch", "vm", "demo", "--type=merge", `-p={"spec":{"template":{"spec":{"volumes":[
		{"name":"data","persistentVolumeClaim":{"claimName":"root"}}]}}}}`))
	s.create(fmt.Sprintf(cloning, "twin"))
	s.eventually("the clone has failed", func() bool { return field(s.get("vmclone", "twin"), "status", "phase") == "Failed" })
	if text := s.must(s.kubectl("", "get", "vmclone", "twin", "-o", "jsonpath={.status.conditions}")).stdout; !strings.Contains(text,
		"volumes[0].persistentVolumeClaim.claimName: Forbidden") || s.exists("vm", "twin-vm") {
		t.Error(text)
	}
}
