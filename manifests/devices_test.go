package manifests_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// deviceWriters: the token of 'launcher devices' writes one label, one annotation and one condition, of its own node alone.
func deviceWriters(t *testing.T, p plane) {
	const account, label = "system:serviceaccount:kiln-devices:kiln-devices", `{"metadata": {"labels": {"kilnvm.io/passt": "true"}}}`
	const condition = `{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Complete", "message": "m"}]}}`
	for _, name := range []string{"n1", "n2"} {
		p.kubectl(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "labels": {"zone": "a"}}}`, name), "create", "-f", "-")
		p.kubectl(t, "", "patch", "node", name, "--subresource=status", "--type=merge",
			`-p={"status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}}`)
	}
	t.Cleanup(func() { p.kubectl(t, "", "delete", "node", "n1", "n2") })
	as := func(user, node string) dynamic.ResourceInterface {
		identity := rest.ImpersonationConfig{UserName: user}
		if user != account {
			identity.Groups = []string{"system:masters"}
		}
		if node != "" {
			identity.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return p.client(t, identity).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	}
	patch := func(user, node, subresource, text string) error {
		_, err := as(user, node).Patch(t.Context(), "n1", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{DryRun: dryRun},
			strings.Fields(subresource)...)
		return err
	}
	eventually(t, "the role and the policy count", func() bool {
		err := patch(account, "n2", "", label)
		return patch(account, "n1", "", label) == nil && err != nil && strings.Contains(err.Error(), "Node alone")
	})
	for _, c := range []struct{ why, user, node, subresource, patch, refused string }{
		{"its label", account, "n1", "", label, ""},
		{"its annotation", account, "n1", "", `{"metadata": {"annotations": {"kilnvm.io/machine-types": "q35"}}}`, ""},
		{"the annotation and another one", account, "n1", "", `{"metadata": {"annotations": {"kilnvm.io/machine-types": "q35", "a": "b"}}}`,
			"annotation kilnvm.io/machine-types alone"},
		{"its condition", account, "n1", "status", fmt.Sprintf(condition, "KilnGuests"), ""},
		{"others write what they may", "admin", "", "", `{"metadata": {"labels": {"zone": "b"}}}`, ""},
		{"a Node of others", account, "n2", "", label, "its pod runs on"},
		{"its status", account, "n2", "status", fmt.Sprintf(condition, "KilnGuests"), "its pod runs on"},
		{"a token of no node", account, "", "", label, "its pod runs on"},
		{"a label by which pods are placed", account, "n1", "", `{"metadata": {"labels": {"zone": "b"}}}`, "label kilnvm.io/passt alone"},
		{"a new one", account, "n1", "", `{"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}}`, "label kilnvm.io/passt alone"},
		{"one that is there", account, "n1", "", `{"metadata": {"labels": {"zone": null}}}`, "label kilnvm.io/passt alone"},
		{"a label by way of the status", account, "n1", "status", `{"metadata": {"labels": {"zone": "b"}}}`, "label kilnvm.io/passt alone"},
		{"an annotation", account, "n1", "", `{"metadata": {"annotations": {"a": "b"}}}`, "annotation kilnvm.io/machine-types alone"},
		{"a finalizer", account, "n1", "", `{"metadata": {"finalizers": ["a/b"]}}`, "one label, one annotation and one condition"},
		{"a taint", account, "n1", "", `{"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}`, "one label, one annotation and one condition"},
		{"readiness", account, "n1", "status", fmt.Sprintf(condition, "Ready"), "condition KilnGuests alone"},
		{"another condition", account, "n1", "status", fmt.Sprintf(condition, "Other"), "condition KilnGuests alone"},
		{"a capacity", account, "n1", "status", `{"status": {"capacity": {"cpu": "8"}}}`, "status condition KilnGuests alone"},
		{"an address, to which the API server would send what is meant for another node", account, "n1", "status",
			`{"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}`, "status condition KilnGuests alone"},
	} {
		p.judged(t, c.why, c.refused, patch(c.user, c.node, c.subresource, c.patch))
	}
	if err := as(account, "n1").Delete(t.Context(), "n1", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "cannot delete") {
		t.Errorf("deletes its Node: %v", err)
	}
}

// TestDevicesWriteNothingElse: the policy names each field of a NodeStatus, also fields of later versions of Kubernetes.
func TestDevicesWriteNothingElse(t *testing.T) {
	text := built(t, "devices")
	for field := range reflect.TypeFor[corev1.NodeStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		compared := fmt.Sprintf("object.?status.?%[1]s == oldObject.?status.?%[1]s", name)
		if name == "conditions" {
			compared = "object.?status.?conditions"
		}
		if !strings.Contains(strings.Join(strings.Fields(text), " "), compared) {
			t.Errorf("manifests/devices/policy.yaml does not compare status.%s", name)
		}
	}
}

// TestDevicesAreNotPrivileged: root without capabilities, without the namespaces of the machine and without a socket of the container runtime.
func TestDevicesAreNotPrivileged(t *testing.T) {
	for _, object := range documents(t, built(t, "devices")) {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		pod := podOf(t, object)
		if pod.HostPID || pod.HostNetwork || pod.HostIPC || pod.ServiceAccountName != "kiln-devices" {
			t.Errorf("namespaces of the machine, or another account: %v", pod)
		}
		var paths []string
		for _, volume := range pod.Volumes {
			paths = append(paths, volume.HostPath.Path)
		}
		const want = "/var/lib/kubelet/device-plugins /var/lib/kubelet/seccomp /var/run/cdi /dev /etc/containerd"
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("paths '%s', want '%s'", got, want)
		}
		for _, container := range pod.Containers {
			of := container.SecurityContext
			if of.Privileged != nil || *of.AllowPrivilegeEscalation || !*of.ReadOnlyRootFilesystem || of.Capabilities.Drop[0] != "ALL" || of.Capabilities.Add != nil {
				t.Errorf("container '%s': %v", container.Name, of)
			}
			for _, mount := range container.VolumeMounts {
				if strings.HasPrefix(mount.MountPath, "/host/") && !mount.ReadOnly {
					t.Errorf("%s can be written", mount.MountPath)
				}
			}
		}
		return
	}
	t.Error("there is no DaemonSet")
}

// TestWithoutDevices: the component leaves nothing of them, and all else.
func TestWithoutDevices(t *testing.T) {
	const whole = "resources: [%[1]s/overlays/rotation]\n"
	all, rest := documents(t, kustomized(t, whole)), documents(t, kustomized(t, whole+"components: [%[1]s/without-devices]\n"))
	if left := len(all) - len(documents(t, built(t, "devices"))); len(rest) != left {
		t.Errorf("%d objects are left, want %d", len(rest), left)
	}
	for _, object := range rest {
		if strings.Contains(object.GetName()+object.GetNamespace(), "kiln-devices") {
			t.Errorf("%s '%s' is left", object.GetKind(), object.GetName())
		}
	}
}
