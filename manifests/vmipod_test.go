package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// placedGuest is an explicit VMI: no webhook runs in this test.
const placedGuest = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "a", "namespace": "team"}, "spec": {
	"architecture": "amd64", "networks": [{"name": "default", "pod": {}}], "terminationGracePeriodSeconds": 5, "domain": {
		"cpu": {"cores": 1, "sockets": 1, "threads": 1, "model": "host-model"}, "memory": {"guest": "64Mi"}, "machine": {"type": "q35"},
		"features": {"acpi": {"enabled": true}}, "firmware": {"uuid": "0e2ff28d-6b9f-4b8f-8f3e-8d3a3f6c9a11"},
		"devices": {"interfaces": [{"name": "default", "model": "virtio", "masquerade": {}}]}}}}`

// TestVMIPod: the controller with the rights and policies of the manifests takes a VMI through its life, in a namespace that enforces Pod Security
// 'restricted'. The test is scheduler and kubelet, and the launcher with the rights of its Role.
func TestVMIPod(t *testing.T) {
	p := startPlane(t)
	p.kubectl(t, "", "apply", "--server-side", "-k", "overlays/rotation")
	p.kubectl(t, "", "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--all")
	p.established(t)
	p.kubectl(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`,
		"create", "-f", "-")
	p.kubectl(t, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kilnvm.io/passt": "true"}}}`, "create", "-f", "-")
	dir := t.TempDir()
	configuration := filepath.Join(dir, "kubevirt.yaml")
	if err := os.WriteFile(configuration, []byte("{vmStateStorageClass: state}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Build(t.Context(), "..", dir, "controller"); err != nil {
		t.Fatal(err)
	}
	startProcess(t, filepath.Join(dir, "controller"), "--kubeconfig", p.Users[controllerAccount], "--health-probe-bind-address", "0",
		"--namespace", "kiln-system", "--launcher-image", "registry.example.org/kiln-launcher:v1", "--config", configuration)

	p.kubectl(t, placedGuest, "create", "-f", "-")
	p.vmiIs(t, "Scheduling")
	uid := p.jsonPath(t, "pod/guest-a", "{.metadata.uid}")
	p.kubectl(t, `{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "guest-a"}, "target": {"kind": "Node", "name": "n1"}}`,
		"create", "-f", "-", "--raw", "/api/v1/namespaces/team/pods/guest-a/binding")
	p.vmiIs(t, "Scheduled")
	eventually(t, "a launcher is introduced", func() bool { return p.jsonPath(t, "guestpod/a", "{.spec.podUID}") == uid })
	p.kubectl(t, "", "patch", "pod", "guest-a", "-n", "team", "--subresource=status", "--type=merge", "-p", `{"status": {"phase": "Running", "podIP": "10.1.0.7",
		"podIPs": [{"ip": "10.1.0.7"}], "conditions": [{"type": "Ready", "status": "True"}],
		"containerStatuses": [{"name": "compute", "image": "i", "imageID": "i", "ready": true, "restartCount": 0, "state": {"running": {}}}]}}`)
	p.reports(t, uid, `{"facts": {"machine": "pc-q35-10.0"}}`)
	eventually(t, "the hardware is recorded", func() bool {
		digest := p.jsonPath(t, "guestpod/a", "{.spec.hardware.digest}")
		return digest != "" && digest == p.jsonPath(t, "guesthardware/a", "{.spec.hardware.digest}")
	})
	p.reports(t, uid, `{"domain": {"state": "Running", "machine": "pc-q35-10.0"}}`)
	p.vmiIs(t, "Running")
	const columns = `{.status.nodeName} {.status.interfaces[0].ipAddress} {.status.machine.type} {.status.conditions[?(@.type=="Ready")].status}`
	eventually(t, "the status is complete", func() bool { return p.jsonPath(t, "vmi/a", columns) == "n1 10.1.0.7 pc-q35-10.0 True" })

	p.kubectl(t, "", "delete", "vmi", "a", "-n", "team", "--wait=false")
	eventually(t, "the pod is deleted", func() bool { return p.jsonPath(t, "pod/guest-a", "{.metadata.deletionTimestamp}") != "" })
	p.reports(t, uid, `{"domain": {"state": "PoweredOff", "reason": "PoweredOff"}}`)
	p.kubectl(t, "", "patch", "pod", "guest-a", "-n", "team", "--subresource=status", "--type=merge", "-p", `{"status": {"phase": "Succeeded"}}`)
	p.kubectl(t, "", "wait", "--for=delete", "vmi/a", "-n", "team", "--timeout=60s")
	p.kubectl(t, "", "delete", "pod", "guest-a", "-n", "team", "--force", "--ignore-not-found") // there is no kubelet to confirm it
	for _, left := range []string{"pod/guest-a", "serviceaccount/guest-a", "role/guest-a", "rolebinding/guest-a", "guestpod/a", "guesthardware/a"} {
		p.kubectl(t, "", "wait", "--for=delete", left, "-n", "team", "--timeout=60s")
	}
	t.Run("the state of a TPM has a key", func(t *testing.T) { keyedState(t, p) })
}

// jsonPath reads an object by a JSONPath; empty if it does not exist.
func (p plane) jsonPath(t *testing.T, object, path string) string {
	t.Helper()
	return p.kubectl(t, "", "get", object, "-n", "team", "--ignore-not-found", "-o", "jsonpath="+path)
}

func (p plane) vmiIs(t *testing.T, phase string) {
	t.Helper()
	eventually(t, "phase "+phase, func() bool { return p.jsonPath(t, "vmi/a", "{.status.phase}") == phase })
}

// reports writes the status of the GuestPod as the launcher of a pod: with the rights of its account, and by a token that names the pod.
func (p plane) reports(t *testing.T, pod, status string) {
	t.Helper()
	launcher := p.client(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:team:guest-a",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"},
		Extra:  map[string][]string{"authentication.kubernetes.io/pod-uid": {pod}}})
	for _, read := range []func(dynamic.Interface) error{
		func(by dynamic.Interface) error {
			_, err := by.Resource(guestPods).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			return err
		},
		func(by dynamic.Interface) error {
			vmis := schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
			_, err := by.Resource(vmis).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			return err
		},
	} {
		if err := read(launcher); err != nil {
			t.Fatal(err)
		}
	}
	_, err := launcher.Resource(guestPods).Namespace("team").Patch(t.Context(), "a", types.MergePatchType, fmt.Appendf(nil, `{"status": %s}`, status),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}
