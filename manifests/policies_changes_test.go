package manifests_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/validate"
	v1 "kubevirt.io/api/core/v1"
)

// changeRules are rules about who changes what; writers shows them.
var changeRules = []string{"update/spec", "security/reserved-label-change", "update/owner", "update/status", "update/other-node"}

// writers: users write what they want, controllers what is, launchers for their own node; and the engine says the same.
func writers(t *testing.T, p plane) {
	const launcher, controller = "system:serviceaccount:kiln-system:kiln-launcher", "system:serviceaccount:kiln-system:kiln-webhook"
	const nodeClaim = "authentication.kubernetes.io/node-name"
	admin := p.client(t, rest.ImpersonationConfig{})
	guest := judged{kind: "VirtualMachineInstance", apiVersion: v1.GroupVersion.String()}.object(t, rightSpec)
	if err := unstructured.SetNestedField(guest.Object, map[string]any{"nodeName": "n2"}, "status"); err != nil {
		t.Fatal(err)
	}
	at := resource(admin, guest)
	if _, err := at.Create(t.Context(), guest, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	asController := p.client(t, rest.ImpersonationConfig{UserName: controller, Groups: []string{"system:masters"}})
	if _, err := resource(asController, guest).Patch(t.Context(), "judged", types.MergePatchType, []byte(`{"status": {"nodeName": "n2"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kubectl(t, "", "delete", "vmi", "judged") })
	for _, c := range []struct{ why, user, node, subresource, patch, rule string }{
		{"anybody labels", "eve", "", "", `{"metadata": {"labels": {"a": "b"}}}`, ""},
		{"nobody changes a spec", "eve", "", "", `{"spec": {"domain": {"memory": {"guest": "2Gi"}}}}`, "update/spec"},
		{"labels of controllers are theirs", "eve", "", "", `{"metadata": {"labels": {"kubevirt.io/nodeName": "n1"}}}`, "security/reserved-label-change"},
		{"which they set", controller, "", "", `{"metadata": {"labels": {"kubevirt.io/nodeName": "n1"}}}`, ""},
		{"an owner is set by controllers", "eve", "", "", `{"metadata": {"ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "uid": "u"}]}}`, "update/owner"},
		{"which they do", controller, "", "", `{"metadata": {"ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "uid": "u"}]}}`, ""},
		{"users write no status", "eve", "", "status", `{"status": {"phase": "Failed"}}`, "update/status"},
		{"controllers do", controller, "n1", "status", `{"status": {"phase": "Failed"}}`, ""},
		{"a launcher of another node does not", launcher, "n1", "status", `{"status": {"phase": "Failed"}}`, "update/other-node"},
		{"nor does it take the guest", launcher, "n1", "status", `{"status": {"nodeName": "n1"}}`, "update/other-node"},
		{"its own does", launcher, "n2", "status", `{"status": {"phase": "Failed"}}`, ""},
		{"one on a bare machine may", launcher, "", "", `{"metadata": {"finalizers": ["a/b"]}}`, ""},
	} {
		as := rest.ImpersonationConfig{UserName: c.user, Groups: []string{"system:masters"}}
		if c.node != "" {
			as.Extra = map[string][]string{nodeClaim: {c.node}}
		}
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		_, err := resource(p.client(t, as), guest).Patch(t.Context(), "judged", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		if (err == nil) != (c.rule == "") || err != nil && !strings.Contains(err.Error(), "(rule "+c.rule+")") {
			t.Errorf("%s: the API server says %v, want rule '%s'", c.why, err, c.rule)
		}
		if diff := cmp.Diff(c.rule, engineOn(t, p, validate.Account{Name: c.user, Node: c.node}, c.subresource, c.patch)); diff != "" {
			t.Errorf("%s: the engine: -want +got\n%s", c.why, diff)
		}
	}
}

// engineOn is the first rule that the engine refuses a change of the stored guest by.
func engineOn(t *testing.T, p plane, by validate.Account, subresource, patch string) string {
	t.Helper()
	stored := p.kubectl(t, "", "get", "vmi", "judged", "-o", "json")
	change := validate.GuestChange{Old: decoded[v1.VirtualMachineInstance](t, []byte(stored)), New: decoded[v1.VirtualMachineInstance](t, merged(t, stored, patch)), By: by}
	errs, limits := validate.GuestUpdate(change, config.Default().Limits), config.Default().Limits
	if subresource != "" {
		errs = validate.GuestStatusUpdate(change, limits)
	}
	if len(errs) == 0 {
		return ""
	}
	return errs[0].Origin
}
