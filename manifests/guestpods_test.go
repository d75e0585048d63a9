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

var guestPods = schema.GroupVersionResource{Group: "kilnvm.io", Version: "v1alpha1", Resource: "guestpods"}

// guestPodOf is a GuestPod that names pod p1.
func guestPodOf(t *testing.T, name, metadata string) *unstructured.Unstructured {
	t.Helper()
	object := fmt.Sprintf(`{"apiVersion": "kilnvm.io/v1alpha1", "kind": "GuestPod", "metadata": {"name": %q%s},
		"spec": {"vmiUID": "v1", "podUID": "p1", "clusterUID": "c", "nodeName": "n1"}}`, name, metadata)
	return &unstructured.Unstructured{Object: *decoded[map[string]any](t, []byte(object))}
}

// guestPodWriters: the controller alone tells a launcher what to start, and the launcher in the pod alone reports, whatever roles others have.
func guestPodWriters(t *testing.T, p plane) {
	const controller = controllerAccount
	p.kubectl(t, "", "create", "clusterrole", "guestpods", "--verb=get,create,update,patch,delete",
		"--resource=guestpods.kilnvm.io,guestpods.kilnvm.io/status")
	p.kubectl(t, "", "create", "clusterrolebinding", "guestpods", "--clusterrole=guestpods", "--group="+writersGroup)
	p.kubectl(t, "", "create", "clusterrolebinding", "mends-guestpods", "--clusterrole=kiln-administrator", "--user=vera")
	as := func(user, pod string) dynamic.ResourceInterface {
		identity := rest.ImpersonationConfig{UserName: user, Groups: []string{writersGroup}}
		if pod != "" {
			identity.Extra = map[string][]string{"authentication.kubernetes.io/pod-uid": {pod}}
		}
		return p.client(t, identity).Resource(guestPods).Namespace("default")
	}
	eventually(t, "the role and the policy count", func() bool {
		_, ours := as(controller, "").Create(t.Context(), guestPodOf(t, "probe", ""), metav1.CreateOptions{DryRun: dryRun})
		_, others := as("eve", "").Create(t.Context(), guestPodOf(t, "probe", ""), metav1.CreateOptions{DryRun: dryRun})
		return ours == nil && others != nil && strings.Contains(others.Error(), "only Kiln's controller")
	})
	for _, name := range []string{"starts", "placed", "ended"} {
		if _, err := as(controller, "").Create(t.Context(), guestPodOf(t, name, ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { p.kubectl(t, "", "delete", "guestpods", "--all") })
	const launcher, account = "p1", "system:serviceaccount:default:guest-a"
	const hardware, ended = `{"spec": {"hardware": {"frontend": "<domain/>", "digest": "d"}}}`, `{"status": {"domain": {"state": "PoweredOff"}}}`
	if _, err := as(controller, "").Patch(t.Context(), "placed", types.MergePatchType, []byte(hardware), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := as(account, launcher).Patch(t.Context(), "ended", types.MergePatchType, []byte(ended), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	const status, runs, labels = "status", `{"status": {"domain": {"state": "Running"}}}`, `{"metadata": {"labels": {"a": "b"}}}`
	const ours, mine = "only Kiln's controller", "only the launcher in the pod"
	for _, c := range []struct{ why, user, pod, name, subresource, patch, refused string }{
		{"a spec by a user", "eve", "", "starts", "", hardware, ours},
		{"a spec by the launcher", account, launcher, "starts", "", hardware, ours},
		{"labels by the launcher", account, launcher, "starts", "", labels, ours},
		{"a spec by Kiln", controller, "", "starts", "", hardware, ""},
		{"a spec by an administrator", "vera", "", "starts", "", hardware, ""},
		{"other hardware, by nobody", controller, "", "placed", "", `{"spec": {"hardware": {"digest": "e"}}}`, "spec.hardware cannot be changed"},
		{"no hardware, by nobody", controller, "", "placed", "", `{"spec": {"hardware": null}}`, "spec.hardware cannot be changed"},
		{"another pod, by nobody", controller, "", "starts", "", `{"spec": {"podUID": "p2"}}`, "spec.podUID, spec.vmiUID and spec.nodeName cannot"},
		{"another node, by nobody", "vera", "", "starts", "", `{"spec": {"nodeName": "n2"}}`, "spec.podUID, spec.vmiUID and spec.nodeName cannot"},
		{"a status by the launcher", account, launcher, "starts", status, runs, ""},
		{"facts by the launcher", account, launcher, "starts", status, `{"status": {"facts": {"machine": "pc-q35-10.0"}}}`, ""},
		{"a status by another pod of the namespace", account, "p2", "starts", status, runs, mine},
		{"a status by a token of the launcher's account that names no pod", account, "", "starts", status, runs, mine},
		{"a status by a user", "eve", "", "starts", status, runs, mine},
		{"a status by an administrator", "vera", "", "starts", status, runs, mine},
		{"a status by Kiln", controller, "", "starts", status, runs, mine},
		{"a status by Kiln's own pod", controller, "p9", "starts", status, runs, mine},
		{"a status after the end", account, launcher, "ended", status, runs, "after the domain has ended"},
		{"no status after the end", account, launcher, "ended", status, `{"status": {"domain": null}}`, "after the domain has ended"},
		{"an unknown state", account, launcher, "starts", status, `{"status": {"domain": {"state": "Sleeping"}}}`, "Unsupported value"},
	} {
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		_, err := as(c.user, c.pod).Patch(t.Context(), c.name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{DryRun: dryRun}, subresources...)
		p.judged(t, c.why, c.refused, err)
	}
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	for user, refused := range map[string]string{"eve": ours, account: ours, "vera": "", controller: "", collector: ""} {
		p.judged(t, "removed by "+user, refused, as(user, "").Delete(t.Context(), "starts", metav1.DeleteOptions{DryRun: dryRun}))
	}
	p.guestPodsGo(t)
}

// guestPodsGo: the garbage collector removes a GuestPod whose pod is gone, and everything goes with its namespace.
func (p plane) guestPodsGo(t *testing.T) {
	t.Helper()
	orphan := `, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "guest-a", "uid": "00000000-0000-4000-8000-000000000000", "controller": true}]`
	p.kubectl(t, string(raw(t, guestPodOf(t, "orphan", orphan))), "create", "-f", "-")
	p.kubectl(t, "", "wait", "--for=delete", "guestpod/orphan", "--timeout=60s")
	p.kubectl(t, "", "create", "namespace", "leaving-too")
	p.kubectl(t, string(raw(t, guestPodOf(t, "a", `, "namespace": "leaving-too"`))), "create", "-f", "-")
	p.kubectl(t, "", "delete", "namespace", "leaving-too", "--timeout=60s")
}
