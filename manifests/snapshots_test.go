package manifests_test

import (
	"strings"
	"testing"
)

// snapshotRows are one object of each kind of snapshot.kubevirt.io and clone.kubevirt.io. The VM of the content has fields of a newer API.
const snapshotRows = `---
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineSnapshot
metadata: {name: row}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: row}}
---
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineSnapshotContent
metadata: {name: row}
spec:
  virtualMachineSnapshotName: row
  source:
    virtualMachine:
      metadata: {name: row, annotations: {kilnvm.io/identity: seed}}
      spec: {runStrategy: Halted, newer: true, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}, newer: 1}}}}
      status: {newer: true}
---
apiVersion: snapshot.kubevirt.io/v1beta1
kind: VirtualMachineRestore
metadata: {name: row}
spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: row}, virtualMachineSnapshotName: row, patches: ['{"op": "remove"}']}
---
apiVersion: clone.kubevirt.io/v1beta1
kind: VirtualMachineClone
metadata: {name: row}
spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: row}, newMacAddresses: {a: '02:00:00:00:00:01'}}`

// snapshotKinds: specs stay as they were created, whether a webhook answers or not, and a content keeps what this release does not know.
func snapshotKinds(t *testing.T, p plane) {
	p.kubectl(t, snapshotRows, "apply", "--server-side", "-f", "-")
	for kind, change := range map[string]string{
		"vmsnapshot": `{"spec": {"failureDeadline": "1m"}}`,
		"vmrestore":  `{"spec": {"target": {"name": "other"}}}`,
		"vmclone":    `{"spec": {"newMacAddresses": null}}`,
	} {
		out, err := p.try("", "", "patch", kind, "row", "--type=merge", "-p", change)
		if err == nil || !strings.Contains(out, "spec: Invalid value") || !strings.Contains(out, "is immutable after creation") {
			t.Errorf("%s: %v, %s", kind, err, out)
		}
		p.kubectl(t, "", "label", kind, "row", "a=b")
	}
	const fields = "{.spec.source.virtualMachine.metadata.annotations.kilnvm\\.io/identity} {.spec.source.virtualMachine.spec.newer} " +
		"{.spec.source.virtualMachine.spec.template.metadata.labels.a} {.spec.source.virtualMachine.spec.template.spec.domain.newer} " +
		"{.spec.source.virtualMachine.status.newer}"
	if got := p.kubectl(t, "", "get", "vmsnapshotcontent", "row", "-o", "jsonpath="+fields); got != "seed true b 1 true" {
		t.Errorf("the content has lost fields of the VM: '%s'", got)
	}
	if got := p.kubectl(t, "", "get", "vmrestore", "row", "-o", "jsonpath={.spec.targetReadinessPolicy}"); got != "WaitGracePeriod" {
		t.Errorf("KubeVirt's default of the readiness policy is '%s'", got)
	}
	p.kubectl(t, snapshotRows, "delete", "-f", "-")
}
