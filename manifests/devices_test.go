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

// deviceWriters: the token of 'launcher devices' and 'launcher cpu' writes their labels, their annotations and one condition, of its own node alone.
func deviceWriters(t *testing.T, p plane) {
	const account, label = "system:serviceaccount:kiln-devices:kiln-devices", `{"metadata": {"labels": {"kilnvm.io/passt": "true"}}}`
	const condition = `{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Complete", "message": "m"}]}}`
	for _, name := range []string{"n1", "n2"} {
		p.kubectl(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "labels": {"zone": "a", "cpu-feature.kilnvm.io/hle": "true"}}}`,
			name), "create", "-f", "-")
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
		{"why the CPU is unknown", account, "n1", "", `{"metadata": {"annotations": {"kilnvm.io/cpu-failure": "no libvirt"}}}`, ""},
		{"labels of the CPU", account, "n1", "", `{"metadata": {"labels": {"cpu-feature.kilnvm.io/avx2": "true", "cpu-model.kilnvm.io/EPYC": "true",
			"cpu-vendor.kilnvm.io/AMD": "true", "cpu-feature.kilnvm.io/hle": null, "kilnvm.io/cpu-emulated": "true", "kilnvm.io/kvm": "true"}}}`, ""},
		{"a label of the CPU with another value", account, "n1", "", `{"metadata": {"labels": {"cpu-feature.kilnvm.io/avx2": "yes"}}}`, "label"},
		{"passt with another value", account, "n1", "", `{"metadata": {"labels": {"kilnvm.io/passt": "no"}}}`, "and cpu-*.kilnvm.io alone"},
		{"a label that begins as one", account, "n1", "", `{"metadata": {"labels": {"kilnvm.io/kvm2": "true"}}}`, "and cpu-*.kilnvm.io alone"},
		{"a label that ends as one", account, "n1", "", `{"metadata": {"labels": {"xcpu-feature.kilnvm.io/a": "true"}}}`, "and cpu-*.kilnvm.io alone"},
		{"labels of KubeVirt", account, "n1", "", `{"metadata": {"labels": {"cpu-feature.node.kubevirt.io/avx2": "true"}}}`, "and cpu-*.kilnvm.io alone"},
		{"too many labels", account, "n1", "", manyLabels(2000), "2000 labels at most"},
		{"many labels", account, "n1", "", manyLabels(1900), ""},
		{"the annotation and another one", account, "n1", "", `{"metadata": {"annotations": {"kilnvm.io/machine-types": "q35", "a": "b"}}}`,
			"and kilnvm.io/cpu-failure alone"},
		{"its condition", account, "n1", "status", fmt.Sprintf(condition, "KilnGuests"), ""},
		{"others write what they may", "admin", "", "", `{"metadata": {"labels": {"zone": "b"}}}`, ""},
		{"a Node of others", account, "n2", "", label, "its pod runs on"},
		{"its status", account, "n2", "status", fmt.Sprintf(condition, "KilnGuests"), "its pod runs on"},
		{"a token of no node", account, "", "", label, "its pod runs on"},
		{"a label by which pods are placed", account, "n1", "", `{"metadata": {"labels": {"zone": "b"}}}`, "and cpu-*.kilnvm.io alone"},
		{"a new one", account, "n1", "", `{"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}}`, "and cpu-*.kilnvm.io alone"},
		{"one that is there", account, "n1", "", `{"metadata": {"labels": {"zone": null}}}`, "and cpu-*.kilnvm.io alone"},
		{"a label by way of the status", account, "n1", "status", `{"metadata": {"labels": {"zone": "b"}}}`, "and cpu-*.kilnvm.io alone"},
		{"an annotation", account, "n1", "", `{"metadata": {"annotations": {"a": "b"}}}`, "and kilnvm.io/cpu-failure alone"},
		{"a finalizer", account, "n1", "", `{"metadata": {"finalizers": ["a/b"]}}`, "some labels, annotations and one condition"},
		{"a taint", account, "n1", "", `{"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}`, "some labels, annotations and one condition"},
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

// manyLabels returns a patch with so many labels of features.
func manyLabels(count int) string {
	var labels []string
	for i := range count {
		labels = append(labels, fmt.Sprintf(`"cpu-feature.kilnvm.io/f%d": "true"`, i))
	}
	return `{"metadata": {"labels": {` + strings.Join(labels, ", ") + `}}}`
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

// TestDevicesAreNotPrivileged: 'launcher devices' is root without capabilities, without the namespaces of the machine and without a socket of the container
// runtime. 'launcher cpu' has the account of guests, and no folder of the machine.
func TestDevicesAreNotPrivileged(t *testing.T) {
	want := map[string]string{"kiln-devices": "/var/lib/kubelet/device-plugins /var/lib/kubelet/seccomp /var/run/cdi /dev /etc/containerd", "kiln-devices-cpu": ""}
	for _, object := range documents(t, built(t, "devices")) {
		if object.GetKind() != "DaemonSet" {
			continue
		}
		pod := podOf(t, object)
		if pod.HostPID || pod.HostNetwork || pod.HostIPC || pod.ServiceAccountName != "kiln-devices" {
			t.Errorf("namespaces of the machine, or another account: %v", pod)
		}
		if user := *pod.SecurityContext.RunAsUser; (user == 0) != (object.GetName() == "kiln-devices") {
			t.Errorf("%s runs as user %d", object.GetName(), user)
		}
		var paths []string
		for _, volume := range pod.Volumes {
			if volume.HostPath != nil {
				paths = append(paths, volume.HostPath.Path)
			}
		}
		if got := strings.Join(paths, " "); got != want[object.GetName()] {
			t.Errorf("%s: paths '%s', want '%s'", object.GetName(), got, want[object.GetName()])
		}
		delete(want, object.GetName())
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
	}
	if len(want) > 0 {
		t.Errorf("DaemonSets are missing: %v", want)
	}
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
