package manifests_test

import (
	"fmt"
	"strings"
	"testing"
)

// sharedRevisions: nobody but Kiln deletes a revision that VMs may be pinned to, though KubeVirt makes VMs its owner, and stores and deletes its own.
func sharedRevisions(t *testing.T, p plane) {
	const shared, own, last = "small-abcdefghijklmnopqrstuvwxyz", "web-small-v1beta1-7f1a7c9e-5bd4-4a6e-9d54-0a1b2c3d4e5f-1", "-n=shared"
	revision := func(name, owner string) string {
		return `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {}, "metadata": {"name": "` + name + `", "namespace": "shared",
			"labels": {"instancetype.kubevirt.io/object-kind": "x"}` + owner + `}}`
	}
	as := func(account string, args ...string) []string {
		return append(args, last, "--as="+account, "--as-group=system:masters")
	}
	const virtController = "system:serviceaccount:kubevirt:kubevirt-controller"
	p.kubectl(t, "", "create", "namespace", "shared")
	p.kubectl(t, "", "create", "configmap", "vm", last)
	uid := p.kubectl(t, "", "get", "configmap", "vm", last, "-o", "jsonpath={.metadata.uid}")
	owner := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "name": "vm", "uid": %q}`, uid)
	if out, err := p.try(webhookAccount, revision(shared, ""), "create", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	p.kubectl(t, revision(own, `, "ownerReferences": [`+owner+`]`), as(virtController, "create", "-f", "-")...)
	const says = "may not delete revision '" + shared + "': VMs may be pinned to it"
	for _, c := range []struct{ why, account, name, says string }{
		{"KubeVirt's upgrade and expandAll", virtController, shared, says},
		{"its API server", "system:serviceaccount:kubevirt:kubevirt-apiserver", shared, says},
		{"an adopted VM is pinned to a revision of KubeVirt's own", virtController, own, "may not delete revision '" + own},
		{"the garbage collector", "system:serviceaccount:kube-system:generic-garbage-collector", shared, says},
		{"which runs as one account where controllers share it", "system:kube-controller-manager", shared, says},
		{"and takes what a VM owned", "system:kube-controller-manager", own, ""},
		{"Kiln's collector", controllerAccount, shared, ""},
		{"an administrator, as before", "eve", shared, "it is not listed in ConfigMap"},
	} {
		out, err := p.try("", "", as(c.account, "delete", "controllerrevision", c.name, "--dry-run=server")...)
		if (err == nil) != (c.says == "") || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v: %s", c.why, err, out)
		}
	}
	// A restore makes the VM the owner, and the VM is deleted. The real garbage collector takes KubeVirt's revision alone.
	p.kubectl(t, "", as(virtController, "patch", "controllerrevision", shared, "--type=merge", `-p={"metadata":{"ownerReferences":[`+owner+`]}}`)...)
	p.kubectl(t, "", "delete", "configmap", "vm", last)
	eventually(t, "what the VM owned is gone", func() bool {
		_, err := p.try("", "", "get", "controllerrevision", own, last)
		return err != nil
	})
	p.kubectl(t, "", "get", "controllerrevision", shared, last)
	p.kubectl(t, "", "delete", "namespace", "shared", "--timeout=60s")
}
