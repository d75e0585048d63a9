package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/nightly"
	"github.com/kilnvm/kiln/test/node"
)

// copied is a VirtualMachine of instancetype 'own' with a card, and a disk on a claim of each mode.
const copied = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: origin}
spec:
  runStrategy: Always
  instancetype: {name: own, kind: VirtualMachineInstancetype}
  template:
    spec:
      nodeSelector: {kubernetes.io/hostname: node-1}
      terminationGracePeriodSeconds: 60
      domain:
        cpu: {model: qemu64}
        firmware: {%s}
        devices:
          disks:
          - {name: block, disk: {bus: virtio}}
          - {name: file, disk: {bus: virtio}}
          - {name: seed, disk: {bus: virtio}}
          - {name: scratch, disk: {bus: virtio}}
          interfaces: [{name: default, masquerade: {}, ports: [{port: 8080}]}]
      networks: [{name: default, pod: {}}]
      volumes:
      - {name: block, persistentVolumeClaim: {claimName: block}}
      - {name: file, persistentVolumeClaim: {claimName: file}}
      - {name: seed, cloudInitNoCloud: {secretRef: {name: seed}}}
      - {name: scratch, emptyDisk: {capacity: 16Mi}}
`

const (
	copiedClaim = `
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec: {accessModes: [ReadWriteOnce], storageClassName: copies, volumeMode: %s, resources: {requests: {storage: 8Mi}}}
`
	ownSize = `
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: own}
spec: {cpu: {guest: %d}, memory: {guest: %s}}
`
	momentOf = `
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineSnapshot
metadata: {name: moment}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %s}}
`
	backToMoment = `
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineRestore
metadata: {name: back}
spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: %s}, virtualMachineSnapshotName: moment, volumeRestorePolicy: InPlace}
`
	cloneOfMoment = `
apiVersion: clone.kubevirt.io/v1beta1
kind: VirtualMachineClone
metadata: {name: copy}
spec:
  source: {apiGroup: snapshot.kubevirt.io, kind: VirtualMachineSnapshot, name: moment}
  target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: copy}
`
	// changes take the card, exchange a claim, and have the instancetype looked up again.
	changes = `{"metadata": {"annotations": {"kilnvm.io/pins": ""}}, "spec": {"template": {"spec": {
		"domain": {"devices": {"autoattachPodInterface": false, "interfaces": null}}, "networks": null, "volumes": [
		{"name": "block", "persistentVolumeClaim": {"claimName": "block"}}, {"name": "file", "persistentVolumeClaim": {"claimName": "other"}},
		{"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "seed"}}}, {"name": "scratch", "emptyDisk": {"capacity": "16Mi"}}]}}}}`
)

// booted starts a VM whose guest writes a mark. It returns the console, and what the guest reports.
func (n *tenant) booted(vm, mark string) (log string, report guest.Report) {
	n.Helper()
	n.apply(seed("kiln.mark=" + mark))
	n.kubectl("patch", "vm", vm, "--type=merge", "-p", `{"spec": {"runStrategy": "Always"}}`)
	log = n.console(vm, "KILN-MARKED "+mark)
	report, err := guest.ParseReport(strings.NewReader(log))
	if err != nil {
		n.Fatal(err)
	}
	return strings.ReplaceAll(log, "\r", ""), report
}

func (n *tenant) halted(vm string) {
	n.Helper()
	n.kubectl("patch", "vm", vm, "--type=merge", "-p", `{"spec": {"runStrategy": "Halted"}}`)
	n.gone("vmi/" + vm)
}

// object reads one of the namespace.
func (n *tenant) object(kind, name string) map[string]any {
	n.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(n.kubectl("get", kind, name, "-o", "yaml")), &object); err != nil {
		n.Fatal(err)
	}
	return object
}

// configuration is what must be as at the moment of a snapshot: spec and pins of the VM, and its record.
func (n *tenant) configuration(vm string) map[string]any {
	n.Helper()
	of := n.object("vm", vm)
	unstructured.RemoveNestedField(of, "spec", "runStrategy")
	pins, _, _ := unstructured.NestedString(of, "metadata", "annotations", "kilnvm.io/pins")
	return map[string]any{"spec": of["spec"], "pins": pins, "hardware": n.object("guesthardware", vm)["spec"]}
}

// TestVolumesOfASnapshot: a snapshot of a running guest, frozen by its agent, has the content of its disks. After the card was removed, a claim replaced,
// the other one written to, the instancetype edited and deleted, and the guest started twice, a restore brings back configuration, hardware and content, with
// another generation ID. A clone has the content, and writes to disks of its own.
func TestVolumesOfASnapshot(t *testing.T) {
	nightly.Only(t)
	node.Require(t)
	disks := startStorage(t)
	n := newTenant(t, "copied")
	boot := kernelBootOf(agentImage, "kiln.seed kiln.agent=vdd")
	n.apply(fmt.Sprintf(copiedClaim, "block", "Block") + fmt.Sprintf(copiedClaim, "file", "Filesystem") + fmt.Sprintf(copiedClaim, "other", "Filesystem") +
		fmt.Sprintf(ownSize, 2, "192Mi") + "---\n" + seed("kiln.mark=moment") + "---\n" + fmt.Sprintf(copied, boot))
	_, seen := n.booted("origin", "moment")
	before := n.configuration("origin")
	n.connected("origin")
	n.apply(fmt.Sprintf(momentOf, "origin"))
	n.kubectl("wait", "vmsnapshot/moment", "--for=condition=Ready", "--timeout=300s")
	n.whole("GuestAgent", "[block file] [seed scratch]")
	n.writesOn("origin")

	n.halted("origin")
	n.apply(fmt.Sprintf(ownSize, 1, "256Mi"))
	n.kubectl("patch", "vm", "origin", "--type=merge", "-p", changes)
	n.kubectl("delete", "virtualmachineinstancetype", "own")
	log, changed := n.booted("origin", "after")
	n.marks(log, "moment", "")
	if len(changed.NICs) != 0 || len(changed.CPUs) != 1 {
		t.Errorf("the changed guest has %d cards and %d CPUs", len(changed.NICs), len(changed.CPUs))
	}
	n.halted("origin")
	log, _ = n.booted("origin", "later")
	n.marks(log, "after", "after")
	n.halted("origin")

	n.apply(fmt.Sprintf(backToMoment, "origin"))
	n.ended("vmrestore/back", "complete", "true")
	if diff := cmp.Diff(before, n.configuration("origin")); diff != "" {
		t.Errorf("the VM is another one than at the moment of the snapshot (-then +now):\n%s", diff)
	}
	log, restored := n.booted("origin", "restored")
	n.marks(log, "moment", "moment")
	if diff := cmp.Diff(seen.Text(), strings.Replace(restored.Text(), restored.Generation, seen.Generation, 1)); diff != "" {
		t.Errorf("the guest sees other hardware than at the moment of the snapshot (-then +now):\n%s", diff)
	}
	if restored.Generation == seen.Generation || restored.Generation == "" {
		t.Errorf("the guest saw the generation ID '%s', and sees '%s'", seen.Generation, restored.Generation)
	}
	n.cloned(disks, restored)
	n.kubectl("delete", "vmsnapshot", "moment", "--timeout=60s")
	n.gone("vmsnapshotcontents,volumesnapshots")
}

// whole checks the status of the snapshot: whether an agent has frozen the guest, the volumes that it includes, and the volumes that it leaves out.
func (n *tenant) whole(agent, volumes string) {
	n.Helper()
	status := n.object("vmsnapshot", "moment")["status"].(map[string]any)
	lists, _ := status["snapshotVolumes"].(map[string]any)
	got := fmt.Sprintf("%v %v %v %v", status["phase"], status["indications"], lists["includedVolumes"], lists["excludedVolumes"])
	if want := "Succeeded [Online " + agent + "] " + volumes; got != want {
		n.Errorf("the snapshot says '%s', want '%s'", got, want)
	}
	if ready := n.kubectl("get", "volumesnapshots", "-o", "jsonpath={.items[*].status.readyToUse}"); ready != "true true" {
		n.Errorf("the VolumeSnapshots are ready: '%s'", ready)
	}
}

// marks checks what a guest has found on its two disks.
func (n *tenant) marks(log, block, file string) {
	n.Helper()
	for disk, mark := range map[string]string{"vda": block, "vdb": file} {
		if want := "KILN-MARK " + disk + " 0 " + mark + "\n"; !strings.Contains(log, want) {
			n.Errorf("the console does not say %q:\n%s", want, log)
		}
	}
}

// ended waits until a field of the status of an object has a value.
func (n *tenant) ended(object, field, value string) {
	n.Helper()
	n.eventually(object+" ends", func() (string, bool) {
		out := n.kubectl("get", object, "-o", "jsonpath={.status."+field+"} {.status}")
		return out, strings.HasPrefix(out, value+" ")
	})
}

// cloned makes a VM of the snapshot while the restored one runs.
func (n *tenant) cloned(disks *storage, origin guest.Report) {
	n.Helper()
	n.apply(cloneOfMoment)
	n.ended("vmclone/copy", "phase", "Succeeded")
	log, report := n.booted("copy", "clone")
	n.marks(log, "moment", "moment")
	if report.DMI["product_uuid"] == origin.DMI["product_uuid"] || report.Generation == origin.Generation {
		n.Errorf("the clone has the UUID %s and the generation ID %s of its origin", report.DMI["product_uuid"], report.Generation)
	}
	for _, volume := range []string{"block", "file"} {
		own := n.kubectl("get", "vm", "copy", "-o", `jsonpath={.spec.template.spec.volumes[?(@.name=="`+volume+`")].persistentVolumeClaim.claimName}`)
		if a, b := disks.mark(n.namespace, volume), disks.mark(n.namespace, own); a != "restored" || b != "clone" {
			n.Errorf("on claim '%s' of the origin is '%s', and on claim '%s' of the clone '%s'", volume, a, own, b)
		}
	}
}
