package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/internal/devices"
	launched "github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/test/cluster"
	"golang.org/x/sys/unix"
)

// devicesOverlay is manifests/devices for one node, with the image of the test.
const devicesOverlay = `
resources: [%s]
images: [{name: kiln-launcher, newName: %s}]
patches:
- target: {kind: DaemonSet}
  patch: |
    - {op: replace, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/hostname: node-1}}
`

// guestPod is confined as the pods of guests are.
const guestPod = `
apiVersion: v1
kind: Namespace
metadata: {name: guests, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Pod
metadata: {name: guest}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  nodeSelector: {kilnvm.io/passt: "true"}
  securityContext:
    {runAsUser: 107, runAsGroup: 107, runAsNonRoot: true, seccompProfile: {type: Localhost, localhostProfile: kiln/launcher.json}}
  containers:
  - name: compute
    image: %s
    args: [guest, %s]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {limits: {%s}}
    volumeMounts: [{name: tmp, mountPath: /tmp}]
  volumes: [{name: tmp, emptyDir: {}}]
`

// TestDevices: 'launcher devices' and 'launcher cpu' run as manifests/devices says. kubelet has the devices that the machine has, the Node says what is
// missing, and a pod under the restricted profile gets them as its own, and isolates itself as passt does.
func TestDevices(t *testing.T) {
	Require(t)
	installDevices(t)
	var args, limits, want, missing []string
	for _, d := range devices.Served {
		name := strings.ReplaceAll(d.Resource(), ".", `\.`)
		has := kubectl(t, "default", "get", "node", "node-1", "-o", "jsonpath={.status.allocatable['"+name+"']}")
		if !usable(t, d) {
			missing = append(missing, d.Resource()+": ")
			if has != "0" {
				t.Errorf("allocatable %s is '%s', want 0: the machine does not have it", d.Resource(), has)
			}
			continue
		}
		if has != "1k" && has != "1000" {
			t.Errorf("allocatable %s is '%s', want 1000", d.Resource(), has)
		}
		args, limits = append(args, d.Path), append(limits, d.Resource()+": 1")
		want = append(want, d.Path+" 107:107 0660 yes")
	}
	t.Logf("the machine has %v, and lacks %v", args, missing)
	if len(args) == 0 {
		t.Error("the machine has no device that could be tested with")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if last := launched.LastForwardedPort(files.Max); last < launched.MostPort { // the node's containers have the limit of this process
		missing = append(missing, fmt.Sprintf("passt: a container may open %d files: ", files.Max))
	}
	condition := kubectl(t, "default", "get", "node", "node-1", "-o", "jsonpath={.metadata.labels['kilnvm\\.io/passt']} "+
		"{range .status.conditions[?(@.type=='KilnGuests')]}{.status} {.reason}: {.message}{end}")
	head := "true True Complete: "
	if len(missing) > 0 {
		head = "true False Incomplete: "
	}
	// The node's containerd has its configuration elsewhere, and the image of this test has no QEMU.
	unknown := []string{"whether device_ownership_from_security_context is set is unknown: open /host/etc/containerd/config.toml: no such file or directory",
		"the machine types of QEMU are unknown: "}
	kvm := kubectl(t, "default", "get", "node", "node-1", "-o", "jsonpath={.metadata.labels['kilnvm\\.io/kvm']}")
	has := usable(t, devices.Served[0])
	if (kvm == "true") != has {
		t.Errorf("label kilnvm.io/kvm is '%s', and /dev/kvm is usable: %t", kvm, has)
	}
	if has { // then 'launcher cpu' runs. The image has no libvirt either.
		eventually(t, "'launcher cpu' writes why the CPU is unknown", func() (string, bool) {
			failure := kubectl(t, "default", "get", "node", "node-1", "-o", "jsonpath={.metadata.annotations['kilnvm\\.io/cpu-failure']}")
			return failure, strings.HasPrefix(failure, "libvirt has ended: ")
		})
	}
	condition, _, _ = strings.Cut(condition, "; the CPU of guests is unknown: libvirt has ended: ") // it follows within minutes
	for _, part := range append(missing, unknown...) {
		if !strings.HasPrefix(condition, head) || !strings.Contains(condition, part) || strings.Count(condition, "; ") != len(missing)+len(unknown) {
			t.Errorf("label and condition are '%s', want '%s' with '%s'", condition, head, part)
		}
	}

	namespace(t, "guests", fmt.Sprintf(guestPod, probe, strings.Join(args, ", "), strings.Join(limits, ", ")))
	kubectl(t, "guests", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/guest")
	want = append(want, "isolated as passt: yes", "unshare with a network: operation not permitted", "clone with a network: operation not permitted")
	if got := strings.TrimSpace(kubectl(t, "guests", "logs", "guest")); got != strings.Join(want, "\n") {
		t.Errorf("the pod says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// installDevices applies the manifests and waits until the pod is ready, which it is when kubelet has the devices and the Node is written.
func installDevices(t *testing.T) {
	t.Helper()
	dir, err := cluster.Dir("kiln-devices")
	if err != nil {
		t.Fatal(err)
	}
	const image = "docker.io/library/kiln-launcher:devices"
	file := filepath.Join(dir, "launcher.tar")
	if err := Program(t.Context(), "./cmd/launcher", image, file); err != nil {
		t.Fatal(err)
	}
	shared.Import(t, file)
	manifests, err := filepath.Abs("../../manifests/devices")
	if err != nil {
		t.Fatal(err)
	}
	if manifests, err = filepath.Rel(dir, manifests); err != nil { // kustomize takes no absolute path
		t.Fatal(err)
	}
	overlay := fmt.Sprintf(devicesOverlay, manifests, image)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := shared.Kubectl(context.Background(), "--namespace", "kiln-devices", "logs", "--tail=50", "daemonset/kiln-devices")
			t.Log(logs)
		}
		out, err := shared.Kubectl(context.Background(), "delete", "-k", dir, "--wait=false", "--ignore-not-found")
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			t.Error(err, out)
		}
	})
	kubectl(t, "kiln-devices", "apply", "--server-side", "-k", dir)
	kubectl(t, "kiln-devices", "rollout", "status", "--timeout=120s", "daemonset/kiln-devices")
	// kubelet writes the devices of a plugin into the Node with its next status.
	eventually(t, "all resources are on the Node", func() (string, bool) {
		all := kubectl(t, "default", "get", "node", "node-1", "-o", "jsonpath={.status.allocatable}")
		return all, strings.Count(all, "devices.kubevirt.io/") == len(devices.Served)
	})
}

// usable looks at the machine, which has the devices that its nodes have.
func usable(t *testing.T, d devices.Device) bool {
	t.Helper()
	if _, err := os.Stat(d.Path); err != nil {
		return false
	}
	misc, err := os.ReadFile("/proc/misc")
	if err != nil {
		t.Fatal(err)
	}
	return d.Misc == "" || strings.Contains(string(misc), " "+d.Misc+"\n")
}
