package manifests_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// changeRules are rules about who changes what; writers shows them.
var changeRules = []string{"update/spec", "security/reserved-label-change", "update/annotation",
	"vmi/owner", "update/node", "update/status", "update/other-node"}

const freed = `{"metadata": {"ownerReferences": []}}`

// writers: users write what they want, controllers what is, launchers for their own node; and the engine says the same.
func writers(t *testing.T, p plane) {
	const launcher, controller = "system:serviceaccount:kiln-system:kiln-launcher", "system:serviceaccount:kiln-system:kiln-controller"
	const nodeClaim = "authentication.kubernetes.io/node-name"
	const collector, shared = "system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"
	const forged = `{"metadata": {"annotations": {"kilnvm.io/generation": "x"}}}`
	// The garbage collector takes what belongs to nobody that exists.
	p.kubectl(t, `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "v"},
		"spec": {"runStrategy": "Halted", "template": {"spec": `+rightSpec+`}}}`, "create", "-f", "-")
	uid := p.kubectl(t, "", "get", "vm", "v", "-o", "jsonpath={.metadata.uid}")
	belongs := func(name string) string {
		return fmt.Sprintf(`{"metadata": {"ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": %q, "uid": %q}]}}`, name, uid)
	}
	owned := belongs("v")
	p.grantWriters(t)
	asController := p.client(t, rest.ImpersonationConfig{UserName: controller, Groups: []string{writersGroup}})
	guest := judged{kind: "VirtualMachineInstance", apiVersion: v1.GroupVersion.String()}.object(t, rightSpec)
	p.stored(t, asController, guest, "free", freed)
	p.stored(t, asController, guest, "owned", owned)
	p.stored(t, asController, guest, "leaving", `{"metadata": {"finalizers": ["example.com/hold"]}}`)
	p.kubectl(t, "", "delete", "vmi", "leaving", "--wait=false")
	t.Cleanup(func() {
		p.kubectl(t, "", "patch", "vmi", "leaving", "--type=merge", `-p={"metadata":{"finalizers":null}}`)
		p.kubectl(t, "", "delete", "vmi/free", "vmi/owned", "vmi/moving", "vm/v")
	})
	p.stored(t, asController, guest, "moving", freed)
	if _, err := resource(asController, guest).Patch(t.Context(), "moving", types.MergePatchType,
		[]byte(`{"status": {"migrationState": {"targetNode": "n1"}}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	const handler, takesOver = "system:serviceaccount:kubevirt:kubevirt-handler", `{"status": {"nodeName": "n1"}}`
	for _, c := range []struct{ why, user, node, name, subresource, patch, rule string }{
		{"anybody labels", "eve", "", "free", "", `{"metadata": {"labels": {"a": "b"}}}`, ""},
		{"nobody changes a spec", "eve", "", "free", "", `{"spec": {"domain": {"memory": {"guest": "2Gi"}}}}`, "update/spec"},
		{"labels of controllers are theirs", "eve", "", "free", "", `{"metadata": {"labels": {"kubevirt.io/nodeName": "n1"}}}`, "security/reserved-label-change"},
		{"which they set", controller, "", "free", "", `{"metadata": {"labels": {"kubevirt.io/nodeName": "n1"}}}`, ""},
		{"an owner is set by controllers", "eve", "", "free", "", owned, "vmi/owner"},
		{"which they do", controller, "", "free", "", owned, ""},
		{"and taken away by them", "eve", "", "owned", "", freed, "vmi/owner"},
		{"or by the garbage collector", collector, "", "owned", "", freed, ""},
		{"whichever account it has", shared, "", "owned", "", freed, ""},
		{"which makes nobody an owner", collector, "", "free", "", owned, "vmi/owner"},
		{"nobody else keeps one under another name", "eve", "", "owned", "", belongs("w"), "vmi/owner"},
		{"generations are written by launchers", launcher, "n2", "free", "", forged, ""},
		{"and not by users", "eve", "", "free", "", forged, "update/annotation"},
		{"nor are pins", "eve", "", "free", "", `{"metadata": {"annotations": {"kilnvm.io/pins": ""}}}`, "update/annotation"},
		{"other annotations are", "eve", "", "free", "", `{"metadata": {"annotations": {"kilnvm.io/numa-cells": "2"}}}`, ""},
		{"the record of a guest that goes is the last word on its hardware", "eve", "", "leaving", "", forged, "update/annotation"},
		{"and its VM keeps it", "eve", "", "leaving", "", owned, "vmi/owner"},
		{"which may go", "eve", "", "leaving", "", `{"metadata": {"finalizers": []}}`, ""},
		{"users write no status", "eve", "", "free", "status", `{"status": {"phase": "Failed"}}`, "update/status"},
		{"controllers do", controller, "n1", "free", "status", `{"status": {"phase": "Failed"}}`, ""},
		{"but move no guest", controller, "n1", "free", "status", `{"status": {"nodeName": "n1"}}`, "update/node"},
		{"KubeVirt's do", "system:serviceaccount:kubevirt:kubevirt-controller", "", "free", "status", `{"status": {"nodeName": "n1"}}`, ""},
		{"the node that a guest is migrated to takes it over", handler, "n1", "moving", "status", takesOver, ""},
		{"no other node does", handler, "n3", "moving", "status", takesOver, "update/other-node"},
		{"nor one that nothing is migrated to", handler, "n1", "free", "status", takesOver, "update/other-node"},
		{"nor a launcher of Kiln's", launcher, "n1", "moving", "status", `{"status": {"phase": "Failed"}}`, "update/other-node"},
		{"a launcher of another node does not", launcher, "n1", "free", "status", `{"status": {"phase": "Failed"}}`, "update/other-node"},
		{"one that is bound to no node takes none either", launcher, "", "free", "status", `{"status": {"nodeName": "n1"}}`, "update/node"},
		{"nor does its own let it go", launcher, "n2", "free", "status", `{"status": {"nodeName": null}}`, "update/node"},
		{"its own does", launcher, "n2", "free", "status", `{"status": {"phase": "Failed"}}`, ""},
		{"one on a bare machine may", launcher, "", "free", "", `{"metadata": {"finalizers": ["a/b"]}}`, ""},
	} {
		as := rest.ImpersonationConfig{UserName: c.user, Groups: []string{writersGroup}}
		if c.node != "" {
			as.Extra = map[string][]string{nodeClaim: {c.node}}
		}
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		_, err := resource(p.client(t, as), guest).Patch(t.Context(), c.name, types.MergePatchType, []byte(c.patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		if (err == nil) != (c.rule == "") || err != nil && !strings.Contains(err.Error(), "(rule "+c.rule+")") {
			t.Errorf("%s: the API server says %v, want rule '%s'", c.why, err, c.rule)
		}
		change := changed(t, p.kubectl(t, "", "get", "vmi", c.name, "-o", "json"), c.patch)
		change.By = validate.Account{Name: c.user, Node: c.node}
		if diff := cmp.Diff(c.rule, engineOn(change, c.subresource)); diff != "" {
			t.Errorf("%s: the engine: -want +got\n%s", c.why, diff)
		}
	}
}

// newOwners: a user creates no guest that belongs to a VM, in either version of the API.
func newOwners(t *testing.T, p plane) {
	p.grantWriters(t)
	for _, version := range []string{"v1", "v1alpha3"} {
		guest := judged{kind: "VirtualMachineInstance", apiVersion: "kubevirt.io/" + version}.object(t, rightSpec)
		guest.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kubevirt.io/" + version, Kind: "VirtualMachine", Name: "v", UID: "u"}})
		for user, allowed := range map[string]bool{
			"eve": false, "system:serviceaccount:kube-system:generic-garbage-collector": false,
			controllerAccount: true, "system:serviceaccount:kubevirt:kubevirt-controller": true,
		} {
			err := create(t.Context(), p.client(t, rest.ImpersonationConfig{UserName: user, Groups: []string{writersGroup}}), guest)
			if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "(rule vmi/owner)") {
				t.Errorf("%s, by '%s': %v, want allowed %t", version, user, err, allowed)
			}
		}
	}
}

// administrators mend what no controller can, such as the guest of a node that is dead; they do not move it.
func administrators(t *testing.T, p plane) {
	p.grantWriters(t)
	asController := p.client(t, rest.ImpersonationConfig{UserName: controllerAccount, Groups: []string{writersGroup}})
	guest := judged{kind: "VirtualMachineInstance", apiVersion: v1.GroupVersion.String()}.object(t, rightSpec)
	p.stored(t, asController, guest, "stranded", freed)
	t.Cleanup(func() { p.kubectl(t, "", "delete", "vmi", "stranded") })
	const failed, moved = `{"status": {"phase": "Failed"}}`, `{"status": {"nodeName": "n1"}}`
	p.kubectl(t, "", "create", "rolebinding", "mending", "--clusterrole=kiln-administrator", "--group=menders")
	p.kubectl(t, "", "create", "clusterrolebinding", "operators", "--clusterrole=cluster-admin", "--group=operators")
	eventually(t, "the roles count", func() bool {
		_, err := p.try("", "", "auth", "can-i", "administer", "virtualmachineinstances", "--subresource=status", "--as=amy", "--as-group=menders")
		_, other := p.try("", "", "auth", "can-i", "administer", "virtualmachineinstances", "--subresource=status", "--as=amy", "--as-group=operators")
		return err == nil && other == nil
	})
	for _, c := range []struct{ why, group, patch, rule string }{
		{"a user who may do everything", "system:masters", failed, ""},
		{"whom a role lets do everything", "operators", failed, ""},
		{"whom the role of manifests/rbac is bound to", "menders", failed, ""},
		{"somebody with rights on the status alone", writersGroup, failed, "update/status"},
		{"nobody moves a guest", "system:masters", moved, "update/node"},
	} {
		as := p.client(t, rest.ImpersonationConfig{UserName: "amy", Groups: []string{c.group}})
		_, err := resource(as, guest).Patch(t.Context(), "stranded", types.MergePatchType, []byte(c.patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if (err == nil) != (c.rule == "") || err != nil && !strings.Contains(err.Error(), "(rule "+c.rule+")") {
			t.Errorf("%s: the API server says %v, want rule '%s'", c.why, err, c.rule)
		}
	}
}

// stored is a guest of a name on node n2, changed by a patch.
func (p plane) stored(t *testing.T, by dynamic.Interface, guest *unstructured.Unstructured, name, patch string) {
	t.Helper()
	made := decoded[map[string]any](t, merged(t, string(raw(t, guest)), patch))
	object := &unstructured.Unstructured{Object: *made}
	object.SetName(name)
	if _, err := resource(by, guest).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := resource(by, guest).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status": {"nodeName": "n2"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func changed(t *testing.T, stored, patch string) validate.GuestChange {
	t.Helper()
	return validate.GuestChange{Old: decoded[v1.VirtualMachineInstance](t, []byte(stored)), New: decoded[v1.VirtualMachineInstance](t, merged(t, stored, patch))}
}

// engineOn is the first rule that the engine refuses a change by.
func engineOn(change validate.GuestChange, subresource string) string {
	limits := config.Default().InstalledIn(config.Installation{Kiln: "kiln-system"}).Limits
	errs := validate.GuestUpdate(change, limits)
	if subresource != "" {
		errs = validate.GuestStatusUpdate(change, limits)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs[0].Origin
}
