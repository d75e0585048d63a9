package manifests_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var hardwares = schema.GroupVersionResource{Group: "kilnvm.io", Version: "v1alpha1", Resource: "guesthardwares"}

// hardwareOf is a GuestHardware with some metadata.
func hardwareOf(t *testing.T, name, metadata string) *unstructured.Unstructured {
	t.Helper()
	object := fmt.Sprintf(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestHardware", "metadata": {"name": %q%s},
		"spec": {"identity": "seed", "hardware": {"defaults": "v1", "digest": "", "machine": "pc-q35-9.2"}}}`, name, metadata)
	return &unstructured.Unstructured{Object: *decoded[map[string]any](t, []byte(object))}
}

// hardwareWriters: what a guest finds at its next boot is no tenant's to write, whatever roles the tenant has, and a launcher's only for its own guests
// before they start.
func hardwareWriters(t *testing.T, p plane) {
	const launcher, controller = "system:serviceaccount:kiln-system:kiln-launcher", controllerAccount
	p.kubectl(t, "", "create", "clusterrole", "hardware", "--verb=get,create,update,patch,delete",
		"--resource=guesthardwares.kilnvm.io,guesthardwares.kilnvm.io/status")
	p.kubectl(t, "", "create", "clusterrolebinding", "hardware", "--clusterrole=hardware", "--group="+writersGroup)
	p.kubectl(t, "", "create", "clusterrolebinding", "mends", "--clusterrole=kiln-administrator", "--user=vera")
	as := func(user, node string) dynamic.ResourceInterface {
		identity := rest.ImpersonationConfig{UserName: user, Groups: []string{writersGroup}}
		if node != "" {
			identity.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return p.client(t, identity).Resource(hardwares).Namespace("default")
	}
	eventually(t, "the role and the policy count", func() bool {
		_, ours := as(controller, "").Create(t.Context(), hardwareOf(t, "probe", ""), metav1.CreateOptions{DryRun: dryRun})
		_, others := as("eve", "").Create(t.Context(), hardwareOf(t, "probe", ""), metav1.CreateOptions{DryRun: dryRun})
		return ours == nil && others != nil && strings.Contains(others.Error(), "kiln-revision-writers")
	})
	for _, name := range []string{"bound", "running", "restored"} {
		if _, err := as(controller, "").Create(t.Context(), hardwareOf(t, name, ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { p.kubectl(t, "", "delete", "guesthardwares", "--all") })
	const guest, run = `{"status": {"guest": {"uid": "u1", "nodeName": "n1"}%s}}`, `, "boots": 1, "lastBoot": {"uid": "u1", "time": "2026-01-01T00:00:00Z"}`
	for name, status := range map[string]string{"bound": fmt.Sprintf(guest, ""), "running": fmt.Sprintf(guest, run)} {
		if _, err := as(controller, "").Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	const runs = `{"status": {"running": {"uid": %q, "digest": "d", "cause": "c", "time": "2026-01-01T00:00:00Z", "vcpus": 1, "memoryKiB": 1}}}`
	const other = `{"spec": {"hardware": {"machine": "pc-q35-7.2"}}}`
	owned := `{"metadata": {"ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "uid": "old"}]}}`
	for _, c := range []struct{ why, user, node, name, subresource, patch, refused string }{
		{"users", "eve", "", "bound", "", other, "kiln-revision-writers"},
		{"the launcher of the guest's node, before it starts", launcher, "n1", "bound", "", other, ""},
		{"a launcher outside of the cluster", launcher, "", "bound", "", other, ""},
		{"the launcher of another node", launcher, "n2", "bound", "", other, "own node"},
		{"while the guest runs", launcher, "n1", "running", "", other, "has booted with it"},
		{"of a guest that may still be restored", launcher, "n1", "restored", "", other, "own node"},
		{"whose it is", launcher, "n1", "bound", "", `{"spec": {"identity": "mine"}}`, "spec.hardware only"},
		{"finalizers", launcher, "n1", "bound", "", `{"metadata": {"finalizers": ["example.com/stay"]}}`, "spec.hardware only"},
		{"labels", launcher, "n1", "bound", "", `{"metadata": {"labels": {"a": "b"}}}`, "spec.hardware only"},
		{"Kiln", controller, "", "bound", "", `{"spec": {"identity": "mine"}}`, ""},
		{"administrators", "vera", "", "running", "", other, ""},
		{"an owner by nobody", controller, "", "bound", "", owned, "ownerReferences must be empty"},
		{"nor by an administrator", "vera", "", "bound", "", owned, "ownerReferences must be empty"},
		{"a status by users", "eve", "", "bound", "status", `{"status": {"boots": 9}}`, "only Kiln's controller"},
		{"whose it is, by a launcher", launcher, "n1", "bound", "status", `{"status": {"guest": {"nodeName": "n2"}}}`, "status.running only"},
		{"how often it ran", launcher, "n1", "bound", "status", `{"status": {"boots": 9}}`, "status.running only"},
		{"that it ran", launcher, "n1", "bound", "status", `{"status": {"lastBoot": {"uid": "u1", "time": "2026-01-01T00:00:00Z"}}}`, "status.running only"},
		{"of which VM it is", launcher, "n1", "bound", "status", `{"status": {"virtualMachineUID": "u2"}}`, "status.running only"},
		{"which CPU nodes offer", launcher, "n1", "bound", "status", `{"status": {"conditions": [{"type": "CPUOffered", "status": "True", "reason": "EveryNodeOffers",
			"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, "status.running only"},
		{"what libvirt runs", launcher, "n1", "running", "status", fmt.Sprintf(runs, "u1"), ""},
		{"the same, outside of the cluster", launcher, "", "running", "status", fmt.Sprintf(runs, "u1"), ""},
		{"what libvirt runs on another node", launcher, "n2", "running", "status", fmt.Sprintf(runs, "u1"), "own node"},
		{"what runs of nobody", launcher, "n1", "restored", "status", fmt.Sprintf(runs, "u1"), "own node"},
		{"what runs of another guest", launcher, "n1", "running", "status", fmt.Sprintf(runs, "u2"), "status.running.uid"},
		{"a status by Kiln", controller, "", "bound", "status", `{"status": {"boots": 9}}`, ""},
		{"and administrators", "vera", "", "bound", "status", `{"status": {"boots": 9}}`, ""},
	} {
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		_, err := as(c.user, c.node).Patch(t.Context(), c.name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{DryRun: dryRun}, subresources...)
		p.judged(t, c.why, c.refused, err)
	}
	p.restores(t, as)
}

var dryRun = []string{metav1.DryRunAll}

// restores: who makes and removes the hardware of guests.
func (p plane) restores(t *testing.T, as func(user, node string) dynamic.ResourceInterface) {
	t.Helper()
	const launcher, backups = "system:serviceaccount:kiln-system:kiln-launcher", "system:serviceaccount:velero:velero"
	owner := `, "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "uid": "old"}]`
	for _, c := range []struct{ why, user, metadata, refused string }{
		{"made by a user", "eve", "", "kiln-revision-writers"},
		{"made by a launcher", launcher, "", "kiln-revision-writers"},
		{"made by a backup tool that is not listed", backups, "", "kiln-revision-writers"},
		{"made by an administrator", "vera", "", ""},
		{"made with an owner that the garbage collector does not find", "vera", owner, "ownerReferences must be empty"},
	} {
		_, err := as(c.user, "").Create(t.Context(), hardwareOf(t, "another", c.metadata), metav1.CreateOptions{DryRun: dryRun})
		p.judged(t, c.why, c.refused, err)
	}
	for user, refused := range map[string]string{"eve": "kiln-revision-writers", launcher: "kiln-revision-writers", "vera": "", controllerAccount: ""} {
		p.judged(t, "removed by "+user, refused, as(user, "").Delete(t.Context(), "bound", metav1.DeleteOptions{DryRun: dryRun}))
	}
	const list = `{"data": {"writers": %q}}`
	before := p.kubectl(t, "", "get", "configmap", "kiln-revision-writers", "-n", "kiln-system", "-o", "jsonpath={.data.writers}")
	p.kubectl(t, "", "patch", "configmap", "kiln-revision-writers", "-n", "kiln-system", "--type=merge", "-p", fmt.Sprintf(list, before+"\n"+backups))
	eventually(t, "a backup tool that is listed may write", func() bool {
		_, err := as(backups, "").Create(t.Context(), hardwareOf(t, "another", ""), metav1.CreateOptions{DryRun: dryRun})
		return err == nil
	})
	p.kubectl(t, "", "patch", "configmap", "kiln-revision-writers", "-n", "kiln-system", "--type=merge", "-p", fmt.Sprintf(list, before))
	p.kubectl(t, "", "create", "namespace", "leaving")
	p.kubectl(t, string(raw(t, hardwareOf(t, "a", `, "namespace": "leaving"`))), "create", "-f", "-")
	p.kubectl(t, "", "delete", "namespace", "leaving", "--timeout=60s") // everything in it goes
}

func (plane) judged(t *testing.T, why, refused string, err error) {
	t.Helper()
	if (err != nil) != (refused != "") || err != nil && !strings.Contains(err.Error(), refused) {
		t.Errorf("%s: the API server says %v, want '%s'", why, err, refused)
	}
}
