package walk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/libvirt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// others are the objects of another tenant, in a namespace. CANARY stands where a secret may be.
const others = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: secret, annotations: {note: CANARY}}, stringData: {password: CANARY}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {setting: CANARY}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: image, labels: {instancetype.kubevirt.io/default-instancetype: CANARY, instancetype.kubevirt.io/default-preference: CANARY}}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
- apiVersion: instancetype.kubevirt.io/v1beta1
  kind: VirtualMachineInstancetype
  metadata: {name: size, annotations: {licence: CANARY}}
  spec: {cpu: {guest: 1}, memory: {guest: 64Mi}, annotations: {example.com/licence: CANARY}}
- apiVersion: instancetype.kubevirt.io/v1beta1
  kind: VirtualMachinePreference
  metadata: {name: preference}
  spec: {annotations: {example.com/preferred: CANARY}}
- apiVersion: kubevirt.io/v1
  kind: VirtualMachineInstancePreset
  metadata: {name: preset, annotations: {note: CANARY}}
  spec: {selector: {matchLabels: {secret: CANARY}}, domain: {ioThreadsPolicy: shared}}
- apiVersion: kubevirt.io/v1
  kind: VirtualMachine
  metadata: {name: web, labels: {owner: CANARY}}
  spec:
    runStrategy: STRATEGY
    instancetype: {kind: VirtualMachineInstancetype, name: size}
    preference: {kind: VirtualMachinePreference, name: preference}
    template:
      metadata: {labels: {secret: CANARY}}
      spec:
        hostname: CANARY
        nodeSelector: {machine: MACHINE}
        terminationGracePeriodSeconds: 0
        domain: {devices: {disks: [{name: data}], interfaces: [], autoattachPodInterface: false}}
        volumes: [{name: data, emptyDisk: {capacity: 1Mi}}]
`

// clusterWide are objects without a namespace that tenants may not read. The profile selects no machine.
const clusterWide = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node, annotations: {note: CANARY}}}
- apiVersion: kilnvm.io/v1alpha1
  kind: HostProfile
  metadata: {name: profile, annotations: {note: CANARY}}
  spec: {nodeSelector: {matchLabels: {rack: CANARY}}, vmiSelector: {matchLabels: {rack: CANARY}}}
`

// edit are rights of Kubernetes' role of that name, in one namespace. The aggregated role is empty here: nothing aggregates.
const edit = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: edit}
rules:
- apiGroups: [""]
  resources: [pods, secrets, configmaps, persistentvolumeclaims, services, serviceaccounts, endpoints, replicationcontrollers]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
- {apiGroups: [""], resources: [serviceaccounts/token, pods/eviction], verbs: [create]}
- {apiGroups: [""], resources: [events, limitranges, resourcequotas, namespaces], verbs: [get, list, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [get, list, watch, create, patch]}
- {apiGroups: [apps], resources: [controllerrevisions], verbs: [get, list, watch]}
- apiGroups: [apps]
  resources: [deployments, statefulsets, daemonsets, replicasets]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
- {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [get, list, watch, create, update, patch, delete, deletecollection]}
`

func (w *world) fill(text string, strategy string) string {
	return strings.NewReplacer("CANARY", w.canary, "MACHINE", w.machine, "STRATEGY", strategy).Replace(text)
}

// settle makes what is there before the tenant comes.
func (w *world) settle() {
	for _, namespace := range []string{tenantSpace, otherSpace, decoySpace, homeSpace} {
		w.kubectl("", "create", "namespace", namespace)
	}
	w.kubectl(w.fill(clusterWide, ""), "create", "-f", "-")
	w.kubectl(w.fill(others, "Always"), "create", "-n", otherSpace, "-f", "-")
	w.kubectl(w.fill(others, "Halted"), "create", "-n", decoySpace, "-f", "-")
	w.eventually("the other's guest runs", func() bool { return w.phase("web") == "Running" })
	w.uid = w.kubectl("", "get", "vm", "web", "-n", otherSpace, "-o", "jsonpath={.metadata.uid}")
	w.uuid = w.kubectl("", "get", "vmi", "web", "-n", otherSpace, "-o", "jsonpath={.spec.domain.firmware.uuid}")
	w.revision = w.kubectl("", "get", "vm", "web", "-n", otherSpace, "-o", "jsonpath={.status.instancetypeRef.controllerRevisionRef.name}")
	if w.revision == "" {
		w.Fatal("the other's VM is pinned to no revision")
	}
}

func (w *world) phase(name string) string {
	return w.kubectl("", "get", "vmi", name, "-n", otherSpace, "--ignore-not-found", "-o", "jsonpath={.status.phase}")
}

// startMachine starts libvirt and a launcher, which serves files of others.
func (w *world) startMachine() {
	daemon := libvirt.Start(w.T)
	// Not TempDir: the paths of sockets are limited to 107 bytes.
	dir, err := os.MkdirTemp("", "kiln-")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { os.RemoveAll(dir) })
	w.volumes = filepath.Join(dir, "volumes")
	for _, name := range hostFiles {
		file := filepath.Join(w.volumes, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(w.canary), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	stop, err := w.on.StartLauncher(w.Context(), cluster.Node{Name: w.machine, Socket: daemon.Socket, Volumes: w.volumes, State: filepath.Join(dir, "state")})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { // guests end with their libvirt
		if err := stop(); err != nil {
			w.Error(err)
		}
	})
	for name, pid := range w.on.Running() {
		if slices.Contains([]string{"launcher", "webhook", "controller"}, name[:strings.LastIndex(name, "-")]) {
			limitMemory(w, pid)
		}
	}
}

// hostFiles are files of others below the folder that the launcher serves.
var hostFiles = []string{"claims/" + otherSpace + "/image/disk.img", "claims/" + otherSpace + "/image.key", "containers/other.example/secret:1/disk/disk.img"}

// mostMemory of a process that a tenant reaches, in bytes of address space: what runs away ends there, and not the machine of the test.
const mostMemory = 4 << 30

func limitMemory(w *world, pid int) {
	w.Helper()
	limit := syscall.Rlimit{Cur: mostMemory, Max: mostMemory}
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_AS, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); err != 0 {
		w.Fatal(err)
	}
}

// works: who was not walked over has the guest that ran, and starts another one.
func (w *world) works() {
	w.Helper()
	if got := w.phase("web"); got != "Running" {
		w.Errorf("the other's guest is '%s'", got)
	}
	manifest := &unstructured.Unstructured{}
	web := w.kubectl("", "get", "vm", "web", "-n", otherSpace, "-o", "json")
	if err := json.Unmarshal([]byte(web), manifest); err != nil {
		w.Fatal(err)
	}
	spec := manifest.Object["spec"]
	after := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "after"}, "spec": spec}
	raw, err := json.Marshal(after)
	if err != nil {
		w.Fatal(err)
	}
	began := time.Now()
	w.kubectl(string(raw), "create", "-n", otherSpace, "-f", "-")
	if !soon(func() bool { return w.phase("after") == "Running" }) {
		w.Error("a VM of another does not start after the walk")
		return
	}
	w.Logf("a VM of another started within %s", time.Since(began).Round(time.Second))
	w.kubectl("", "delete", "vm", "after", "-n", otherSpace, "--timeout=60s")
	w.kubectl("", "wait", "--for=delete", "vmi/after", "-n", otherSpace, "--timeout=60s")
}
