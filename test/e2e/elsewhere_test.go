package e2e

import (
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// writers have roles that let them write VMIs, statuses and revisions: accounts of this installation and of another one, and a tenant.
const writers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writers}
rules:
- {apiGroups: [kubevirt.io], resources: [virtualmachines/status, virtualmachineinstances/status], verbs: [get, patch, update]}
- {apiGroups: [kubevirt.io], resources: [virtualmachineinstances], verbs: [get, patch, update]}
- {apiGroups: [apps], resources: [controllerrevisions], verbs: [create, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writers}
subjects:
- {kind: ServiceAccount, name: kiln-controller, namespace: vms}
- {kind: ServiceAccount, name: kiln-launcher, namespace: kiln-system}
- {kind: ServiceAccount, name: kiln-controller, namespace: kiln-system}
- {kind: ServiceAccount, name: kiln-webhook, namespace: kiln-system}
- {kind: ServiceAccount, name: kubevirt-controller, namespace: virt}
- {kind: ServiceAccount, name: kubevirt-controller, namespace: kubevirt}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}
`

const snapshot = `{"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {},
	"metadata": {"name": "forged", "labels": {"instancetype.kubevirt.io/object-name": "x"}}}`

// Kiln and KubeVirt work in namespaces of the administrator's choice. Accounts of the same names in other namespaces, the default ones
// included, are tenants.
func TestInOtherNamespaces(t *testing.T) {
	t.Parallel()
	a := newAloneBy(t, cluster.Options{Namespace: "vms", Launchers: "vm-launchers", KubeVirt: "virt"})
	s := newSpaceOn(t, a.Cluster)
	// The namespace of what nodes need has one name everywhere.
	out := strings.ReplaceAll(s.must(s.kubectl("", "get", "namespaces", "-o", "name")).stdout, "namespace/kiln-devices\n", "")
	if strings.Contains(out, "kiln-") {
		t.Errorf("there are other namespaces of Kiln:\n%s", out)
	}
	s.create(vm("web", running...))
	s.eventually("the controller makes a guest, and says so in the VM's status", func() bool {
		return s.read("vm", "web", "{.status.created}").stdout == "true"
	})
	launcher := s.launch("elsewhere")
	s.eventually("a launcher holds its Lease", func() bool {
		return s.readIn(cluster.In{Namespace: "vm-launchers", Kind: "lease"}, "elsewhere", "{.spec.holderIdentity}").stdout != ""
	})
	if err := launcher.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.end(launcher)

	s.create(writers)
	s.eventually("the roles count", func() bool {
		return s.kubectl("", "auth", "can-i", "update", "vmi", "--subresource=status", "--as=eve").err == nil
	})
	guest := s.get("vmi", "web")
	if err := unstructured.SetNestedField(guest.Object, "elsewhere", "status", "nodeName"); err != nil {
		t.Fatal(err)
	}
	claimed := mustJSON(t, guest)
	regenerated := []string{"annotate", "vmi", "web", "kilnvm.io/generation=x", "--overwrite"}
	report := []string{"replace", "--subresource=status", "-f", "-"}
	for _, account := range []string{"eve", "system:serviceaccount:kiln-system:kiln-launcher", "system:serviceaccount:kiln-system:kiln-controller",
		"system:serviceaccount:kubevirt:kubevirt-controller"} {
		as := "--as=" + account
		a.refuses("a status by "+account, "only controllers may write status", claimed, append(report, as, "-n", s.name)...)
		a.refuses("a generation by "+account, "only controllers may change", "", append(regenerated, as, "-n", s.name)...)
	}
	for _, account := range []string{"system:serviceaccount:kiln-system:kiln-webhook", "system:serviceaccount:kubevirt:kubevirt-controller"} {
		a.refuses("a revision by "+account, "of namespace 'vms'", snapshot, "create", "-n", s.name, "-f", "-", "--as="+account)
	}

	s.must(s.kubectl(claimed, append(report, "--as=system:serviceaccount:vms:kiln-launcher")...))
	s.must(s.kubectl("", append(regenerated, "--as=system:serviceaccount:vms:kiln-controller")...))
	const kubevirt = "--as=system:serviceaccount:virt:kubevirt-controller"
	s.must(s.kubectl(snapshot, "create", "-f", "-", kubevirt))
	s.must(s.kubectl("", "annotate", "vmi", "web", "kilnvm.io/generation=y", "--overwrite", kubevirt))
	s.must(s.kubectl("", "patch", "vmi", "web", "--subresource=status", "--type=merge", "-p", `{"status": {"phase": "Scheduled"}}`, kubevirt))
}
