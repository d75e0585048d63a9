package manifests_test

import (
	"fmt"
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

// contentWriters: who could write a content would have Kiln's controller write a VM and its hardware. Users may delete contents.
func contentWriters(t *testing.T, p plane) {
	const content = `{"apiVersion": "snapshot.kubevirt.io/v1beta1", "kind": "VirtualMachineSnapshotContent", "metadata": {"name": "%s"},
		"spec": {"source": {}}}`
	p.kubectl(t, "", "create", "clusterrole", "contents", "--verb=get,create,update,patch,delete",
		"--resource=virtualmachinesnapshotcontents.snapshot.kubevirt.io")
	p.kubectl(t, "", "create", "clusterrolebinding", "contents", "--clusterrole=contents", "--group="+writersGroup)
	as := func(user string) []string { return []string{"--as=" + user, "--as-group=" + writersGroup} }
	made := fmt.Sprintf(content, "made")
	eventually(t, "the role and the policy count", func() bool {
		_, ours := p.try("", made, append([]string{"create", "--dry-run=server", "-f", "-"}, as(controllerAccount)...)...)
		_, others := p.try("", made, append([]string{"create", "--dry-run=server", "-f", "-"}, as("eve")...)...)
		return ours == nil && others != nil
	})
	for _, c := range []struct {
		why, user, input string
		args             []string
		refused          bool
	}{
		{"a tenant makes none", "eve", made, []string{"create", "-f", "-"}, true},
		{"the controller does", controllerAccount, made, []string{"create", "-f", "-"}, false},
		{"a tenant names no other record", "eve", "", []string{"annotate", "vmsnapshotcontent", "made", "kilnvm.io/record=other"}, true},
		{"and no other VM", "eve", "", []string{"patch", "vmsnapshotcontent", "made", "--type=merge",
			`-p={"spec":{"source":{"virtualMachine":{"metadata":{"name":"a"}}}}}`}, true},
		{"an administrator may", "", "", []string{"label", "vmsnapshotcontent", "made", "a=b"}, false},
		{"a tenant deletes it", "eve", "", []string{"delete", "vmsnapshotcontent", "made"}, false},
	} {
		args := c.args
		if c.user != "" {
			args = append(args, as(c.user)...)
		}
		out, err := p.try("", c.input, args...)
		if (err != nil) != c.refused || c.refused && !strings.Contains(out, "may not write VirtualMachineSnapshotContents") {
			t.Errorf("%s: refused %t, want %t: %s", c.why, err != nil, c.refused, out)
		}
	}
}
