package node

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kilnvm/kiln/test/cgroups"
)

// traces are what a node could leave on the machine.
type traces struct {
	Cgroups, Loops, Mounts, Interfaces []string
	// hierarchies is the number of places where the machine has cgroups.
	hierarchies int
}

// look lists what of the nodes of one supervisor the machine has now: everything that names its directory, its cgroups or one of its namespaces.
func look(t *testing.T, n *Node) traces {
	t.Helper()
	var seen traces
	groups, err := cgroups.Read()
	if err != nil {
		t.Fatal(err)
	}
	if seen.Cgroups, seen.hierarchies, err = groups.Folders(n.Cgroup); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), n.Dir) {
			seen.Loops = append(seen.Loops, file)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, filepath.Dir(n.Dir)) || strings.Contains(line, n.Store) {
			seen.Mounts = append(seen.Mounts, line)
		}
	}
	links, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name := filepath.Base(link); name == "lan" || name == "pods" || strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "node") {
			seen.Interfaces = append(seen.Interfaces, name)
		}
	}
	return seen
}

// inNamespace lists the processes of a PID namespace, as the machine sees them.
func inNamespace(t *testing.T, namespace string) (pids []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == namespace {
			pids = append(pids, strings.Split(link, "/")[2])
		}
	}
	return pids
}

// volume is of mode Block: kubelet puts a loop device over the one that it is given.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: block}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  volumeMode: Block
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: default, name: block}
  local: {path: DEVICE}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: block}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: "", volumeName: block, resources: {requests: {storage: 1Mi}}}
---
`

// withPod runs a node with a pod that has a loop device.
func withPod(t *testing.T) *Node {
	t.Helper()
	n, err := Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	n.Import(t, archived)
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	device, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSpace(string(device))
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "losetup", "--detach", path).CombinedOutput(); err != nil {
			t.Errorf("detaching the test's own loop device: %v: %s", err, out)
		}
	})
	file := filepath.Join(t.TempDir(), "objects.yaml")
	objects := strings.Replace(volume, "DEVICE", path, 1) + strings.Replace(pod("stays", "  volumes: [{name: block, persistentVolumeClaim: {claimName: block}}]"),
		"args: [serve]", "args: [serve], volumeDevices: [{name: block, devicePath: /dev/block}]", 1)
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apply", "-f", file}, {"wait", "--for=condition=Ready", "--timeout=120s", "pod/stays"}} {
		if out, err := n.Kubectl(t.Context(), args...); err != nil {
			events, _ := n.Kubectl(t.Context(), "get", "events")
			t.Fatalf("kubectl %v: %v: %s\n%s", args, err, out, events)
		}
	}
	return n
}

func TestNothingStays(t *testing.T) {
	Require(t)
	n := withPod(t)
	namespace, err := os.Readlink("/proc/" + strconv.Itoa(n.PID) + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	during := look(t, n)
	// What is looked for must be seen while it is there, or its absence later says nothing.
	if len(during.Cgroups) != during.hierarchies || len(during.Loops) == 0 || len(inNamespace(t, namespace)) < 8 {
		t.Errorf("while the node runs: want a cgroup in each hierarchy, a loop device and processes, got %+v", during)
	}
	if len(during.Mounts)+len(during.Interfaces) != 0 {
		t.Errorf("while the node runs: want neither its mounts nor its interfaces outside, got %+v", during)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if left := look(t, n); len(slices.Concat(left.Cgroups, left.Loops, left.Mounts, left.Interfaces)) != 0 {
		t.Errorf("want nothing left, got %+v", left)
	}
	if left := inNamespace(t, namespace); len(left) != 0 {
		t.Errorf("want no process left, got %v", left)
	}
	if _, err := os.Stat(filepath.Dir(n.Dir)); !os.IsNotExist(err) {
		t.Errorf("want the directory gone, got %v", err)
	}
}

// Killed like a test that panics or runs out of time: the node goes with its supervisor, and the next supervisor removes the cgroups.
func TestKilledSupervisor(t *testing.T) {
	Require(t)
	n, err := Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(n.supervisor.dir) })
	namespace, err := os.Readlink("/proc/" + strconv.Itoa(n.PID) + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if during := look(t, n); len(during.Cgroups) != during.hierarchies {
		t.Errorf("while the node runs: want a cgroup in each hierarchy, got %+v", during)
	}
	if err := n.supervisor.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = n.supervisor.cmd.Wait() // it was killed
	eventually(t, "no process is left", func() (string, bool) {
		left := inNamespace(t, namespace)
		return strings.Join(left, " "), len(left) == 0
	})
	next, err := startSupervisor(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	// It sweeps before it reads what it shall start, and ends without any.
	if err := next.close(); err != nil {
		t.Error(err)
	}
	if left := look(t, n).Cgroups; len(left) != 0 {
		t.Errorf("want the cgroups swept, got %v", left)
	}
}
