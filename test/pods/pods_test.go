package pods

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/poll"
)

var (
	vmKind       = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	vmiKind      = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	guestPodKind = schema.GroupVersionResource{Group: "kilnvm.io", Version: "v1alpha1", Resource: "guestpods"}
	podKind      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// tenant is a namespace that enforces the strictest profile of Pod Security.
type tenant struct {
	*testing.T
	namespace string
}

// newTenant makes a namespace, which is deleted at the end of the test.
func newTenant(t *testing.T, namespace string) *tenant {
	t.Helper()
	node.Require(t)
	n := &tenant{t, namespace}
	n.apply(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted}}\n", namespace))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			for _, args := range [][]string{
				{"get", "vm,vmi,guestpods,guesthardwares,pods,events", "-o", "wide"}, {"get", "vmi,guestpods", "-o", "yaml"}, {"describe", "pods"},
				{"logs", "--selector", "kubevirt.io=virt-launcher", "--tail=80"},
			} {
				output, _ := shared.Kubectl(ctx, append([]string{"--namespace", namespace}, args...)...)
				t.Log(output)
			}
			for _, args := range [][]string{{"describe", "nodes"}, {"--namespace=kiln-system", "get", "deployments,pods,events", "-o", "wide"}} {
				output, _ := shared.Kubectl(ctx, args...)
				t.Log(output)
			}
		}
		if out, err := shared.Kubectl(ctx, "delete", "namespace", namespace, "--timeout=180s"); err != nil {
			t.Error(err, out)
		}
	})
	return n
}

// apply applies objects as the administrator.
func (n *tenant) apply(objects string) {
	n.Helper()
	if out, err := n.applied(objects); err != nil {
		n.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// applied is apply that may fail.
func (n *tenant) applied(objects string) (string, error) {
	n.Helper()
	file := filepath.Join(n.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		n.Fatal(err)
	}
	return shared.Kubectl(n.Context(), "--namespace", n.namespace, "apply", "-f", file)
}

// kubectl runs in the namespace, and fails the test if it does.
func (n *tenant) kubectl(args ...string) string {
	n.Helper()
	out, err := shared.Kubectl(n.Context(), append([]string{"--namespace", n.namespace}, args...)...)
	if err != nil {
		n.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// patience is how long a test waits for one step of a guest that is emulated on a busy machine.
const patience = guest.BootTimeout

// eventually polls.
func (n *tenant) eventually(what string, check func() (seen string, ok bool)) {
	n.Helper()
	var seen string
	if !poll.Until(patience, func() (ok bool) {
		seen, ok = check()
		return ok
	}) {
		n.Fatalf("not within %s: %s; last seen: %s", patience, what, seen)
	}
}

// vmis are asked without kubectl where a test waits long: each start of kubectl takes the CPU from the guest that is waited for.
func (n *tenant) vmis() dynamic.ResourceInterface {
	n.Helper()
	return admin(n).Resource(vmiKind).Namespace(n.namespace)
}

// admin is a client of all kinds that waits for no budget of its own.
func admin(t testing.TB) dynamic.Interface {
	t.Helper()
	config := shared.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// phase waits for a phase of a VMI.
func (n *tenant) phase(vmi, phase string) {
	n.Helper()
	n.eventually("VMI "+vmi+" is "+phase, func() (string, bool) {
		got, err := n.vmis().Get(n.Context(), vmi, metav1.GetOptions{})
		if err != nil {
			return err.Error(), false
		}
		out, _, err := unstructured.NestedString(got.Object, "status", "phase")
		return out, err == nil && out == phase
	})
}

// console waits until a guest has written a text to its serial console, which is the log of its pod, and returns all of it.
func (n *tenant) console(vmi, text string) (log string) {
	n.Helper()
	reader := n.reader()
	n.eventually("guest "+vmi+" says '"+text+"'", func() (_ string, ok bool) {
		var err error
		log, err = reader.log("guest-" + vmi)
		return log[max(0, len(log)-500):], err == nil && strings.Contains(log, text)
	})
	return log
}

// gone waits until nothing of a guest is left.
func (n *tenant) gone(kinds string) {
	n.Helper()
	n.eventually(kinds+" are gone", func() (string, bool) {
		out, err := shared.Kubectl(n.Context(), "--namespace", n.namespace, "get", kinds, "-o", "name", "--ignore-not-found")
		return out, err == nil && strings.TrimSpace(out) == ""
	})
}

// fetch asks an address of the cluster by HTTP.
func (n *tenant) fetch(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: shared.Dial, DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return string(body), err
}

// blockClaim makes a claim with volumeMode Block whose volume is a loop device of this machine.
func (n *tenant) blockClaim(name string) {
	n.Helper()
	file := filepath.Join(n.TempDir(), name)
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		n.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		n.Fatalf("losetup: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	n.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			n.Errorf("losetup: %v: %s", err, out)
		}
	})
	n.volume(name, "Block", device)
}

// fileClaim makes a claim with a file system, which is a folder of the node.
func (n *tenant) fileClaim(name string) {
	n.Helper()
	folder := filepath.Join(shared.Dir, n.namespace+"-"+name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		n.Fatal(err)
	}
	n.volume(name, "Filesystem", folder)
}

// volume makes a claim, and a volume for it that only its namespace and name can have.
func (n *tenant) volume(name, mode, path string) {
	n.Helper()
	volume := n.namespace + "-" + name
	n.Cleanup(func() {
		if out, err := shared.Kubectl(context.WithoutCancel(n.Context()), "delete", "pv", volume, "--wait=false"); err != nil {
			n.Error(err, out)
		}
	})
	n.apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 8Mi}
  accessModes: [ReadWriteOnce]
  volumeMode: %[2]s
  storageClassName: %[1]s
  persistentVolumeReclaimPolicy: Retain
  local: {path: %[3]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[4]s}
spec: {accessModes: [ReadWriteOnce], volumeMode: %[2]s, storageClassName: %[1]s, resources: {requests: {storage: 8Mi}}}
`, volume, mode, path, name))
}
