package subresources

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// ownSize is an instancetype of a history's own, by its vCPUs: it changes while snapshots hold what it was.
const ownSize = `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: own}, ` +
	`spec: {cpu: {guest: %d}, memory: {guest: 64Mi}}}`

// bootedHardware is a record as launchers write it.
const bootedHardware = `{"defaults":"v1","digest":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","machine":"pc-q35-7.2",` +
	`"devices":{"disk.data":{"pci":"0000:0b:00.0"}}}`

// copyOf names the VM that a snapshot or a clone is of: the second of the values.
const copyOf = `{apiGroup: kubevirt.io, kind: VirtualMachine, name: %[2]s}`

// ofSnapshots take snapshots of a VM, restore it, clone it, and delete what was made. Restores of VMs that run are refused, or stop them.
func (h *history) ofSnapshots(name string) []operation {
	create := func(manifest string, values ...any) func() {
		return func() { h.kubectl(fmt.Sprintf(manifest, values...), "create", "-f", "-") }
	}
	h.copies++
	policies := []api.TargetReadinessPolicy{api.VirtualMachineRestoreStopTarget, api.VirtualMachineRestoreFailImmediate}
	return []operation{
		{"snapshot", create(`{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: s%d, labels: {of: %[2]s}}, `+
			`spec: {source: `+copyOf+`}}`, h.copies, name)},
		{"restore", func() {
			for _, of := range list[api.VirtualMachineSnapshotList](h, "vmsnapshot", "of="+name).Items {
				if of.Status != nil && of.Status.ReadyToUse != nil && *of.Status.ReadyToUse && of.DeletionTimestamp == nil {
					create(`{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: r%d}, spec: {target: `+copyOf+
						`, virtualMachineSnapshotName: %s, targetReadinessPolicy: %s}}`, h.copies, name, of.Name, policies[h.IntN(len(policies))])()
					return
				}
			}
		}},
		{"clone", create(`{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: c%d}, spec: {source: `+copyOf+
			`, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: c%[1]d-vm}}}`, h.copies, name)},
		{"delete a snapshot", func() {
			if all := list[api.VirtualMachineSnapshotList](h, "vmsnapshot", "of="+name).Items; len(all) > 0 {
				h.kubectl("", "delete", "vmsnapshot", all[h.IntN(len(all))].Name, "--wait=false", "--ignore-not-found")
			}
		}},
		{"delete a restore", func() {
			if all := list[api.VirtualMachineRestoreList](h, "vmrestore", "").Items; len(all) > 0 {
				h.kubectl("", "delete", "vmrestore", all[h.IntN(len(all))].Name, "--wait=false", "--ignore-not-found")
			}
		}},
	}
}

// list returns the objects of a kind and a label selector in the namespace of the history.
func list[T any](h *history, kind, selector string) *T {
	h.Helper()
	all := new(T)
	if err := json.Unmarshal([]byte(h.kubectl("", "get", kind, "-l", selector, "-o", "json")), all); err != nil {
		h.Fatal(err)
	}
	return all
}

// settled waits until each snapshot, restore and clone has ended, well or with a reason, and holds its VM no more. What the snapshots hold is there, and each
// clone that succeeded is a machine of its own.
func (h *history) settled() {
	h.Helper()
	h.eventually("snapshots, restores and clones end", func() bool { return h.open() == "" }, h.open)
	for _, content := range list[api.VirtualMachineSnapshotContentList](h, "vmsnapshotcontent", "").Items {
		h.pinned("content "+content.Name, content.Annotations)
		if record := content.Annotations[v1alpha1.AnnotationRecord]; record != "" &&
			h.kubectl("", "get", "controllerrevisions", record, "--ignore-not-found", "-o", "name") == "" {
			h.Errorf("content %s: its record %s is lost", content.Name, record)
		}
	}
	identities := map[string]string{}
	for _, vm := range list[v1.VirtualMachineList](h, "vm", "").Items {
		identity := vm.Annotations[v1alpha1.AnnotationIdentity]
		if other, taken := identities[identity]; identity == "" || taken {
			h.Errorf("%s has identity '%s', as '%s' has", vm.Name, identity, other)
		}
		identities[identity] = vm.Name
	}
}

// open returns the name of an object that has not ended; empty if all have.
func (h *history) open() string {
	h.Helper()
	for _, of := range list[api.VirtualMachineSnapshotList](h, "vmsnapshot", "").Items {
		if of.DeletionTimestamp != nil || of.Status == nil || of.Status.Phase != api.Succeeded && of.Status.Phase != api.Failed {
			return "snapshot " + of.Name
		}
	}
	for _, of := range list[api.VirtualMachineRestoreList](h, "vmrestore", "").Items {
		if of.DeletionTimestamp != nil || of.Status == nil || !*of.Status.Complete && !hasFailed(of.Status.Conditions) && !h.waits(of) {
			return "restore " + of.Name
		}
	}
	for _, of := range list[clone.VirtualMachineCloneList](h, "vmclone", "").Items {
		if of.Status.Phase != clone.Succeeded && of.Status.Phase != clone.Failed {
			return "clone " + of.Name
		}
	}
	for _, of := range list[v1.VirtualMachineList](h, "vm", "").Items {
		if of.Status.SnapshotInProgress != nil || of.Status.RestoreInProgress != nil {
			return "VM " + of.Name
		}
	}
	return ""
}

// waits reports whether a restore waits for a snapshot that does not exist. A restore waits, and holds no VM, if its snapshot was deleted before the controller
// looked at the restore.
func (h *history) waits(of api.VirtualMachineRestore) bool {
	h.Helper()
	return slices.ContainsFunc(of.Status.Conditions, func(c api.Condition) bool {
		return c.Type == api.ConditionProgressing && c.Reason == v1alpha1.ReasonSnapshotNotReady
	}) && h.kubectl("", "get", "vmsnapshot", of.Spec.VirtualMachineSnapshotName, "--ignore-not-found", "-o", "name") == ""
}

func hasFailed(all []api.Condition) bool {
	for _, c := range all {
		if c.Type == api.ConditionFailure && c.Status == "True" {
			return true
		}
	}
	return false
}
