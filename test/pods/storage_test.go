package pods

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/poll"
)

// storage is the driver of test/csi on the shared node, with the sidecars that provision and snapshot for it.
type storage struct {
	*testing.T
	// dir has the programs, their logs, and below 'store' the volumes.
	dir string
}

// storageClasses are the driver's classes: one named copies, and one for claims with EFI variables and TPM state, which are bound when a pod is scheduled.
// Volumes are published without being attached before, and belong to the group of the pod.
const storageClasses = `
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: copies.csi.kilnvm.io}
spec: {attachRequired: false, fsGroupPolicy: File}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: copies}
provisioner: copies.csi.kilnvm.io
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ` + stateClass + `}
provisioner: copies.csi.kilnvm.io
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: copies}
driver: copies.csi.kilnvm.io
deletionPolicy: Delete
`

// snapshotModule has the CRDs of VolumeSnapshots.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

// startStorage starts all of it for the length of a test, and removes it from the cluster. Then every volume and every snapshot must be gone.
func startStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{t, filepath.Join(shared.Dir, "csi")}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(s.dir); err != nil {
			t.Error(err)
		}
	})
	runGo(t, "../csi", "build", "-o", s.dir, "./driver", "tool")
	crds := filepath.Join(runGo(t, "../csi", "list", "-m", "-f", "{{.Dir}}", snapshotModule), "config/crd")
	s.serveSnapshots(crds)

	socket := filepath.Join(s.dir, "csi.sock")
	// In the node's namespaces, so that kubelet sees what it mounts.
	s.start("nsenter", "--target", fmt.Sprint(shared.PID), "--mount", "--net", "--pid", "--", filepath.Join(s.dir, "driver"), "-node", shared.Name,
		"-dir", filepath.Join(s.dir, "store"), "-endpoint", socket, "-registry", filepath.Join(shared.Dir, "kubelet/plugins_registry"))
	s.start(filepath.Join(s.dir, "csi-provisioner"), "--kubeconfig", shared.Kubeconfig(), "--csi-address", socket)
	s.start(filepath.Join(s.dir, "csi-snapshotter"), "--kubeconfig", shared.Kubeconfig(), "--csi-address", socket)
	s.start(filepath.Join(s.dir, "snapshot-controller"), "--kubeconfig", shared.Kubeconfig())
	t.Cleanup(s.empty)
	s.kubectl("wait", "--for=jsonpath={.spec.drivers[0].name}=copies.csi.kilnvm.io", "--timeout=120s", "csinode/"+shared.Name)
	return s
}

// serveSnapshots makes the CRDs and the classes.
func (s *storage) serveSnapshots(crds string) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(crds, "snapshot.storage.k8s.io_*.yaml"))
	if err != nil || len(files) != 3 {
		s.Fatalf("the CRDs of VolumeSnapshots are %s, %v", files, err)
	}
	classes := filepath.Join(s.dir, "classes.yaml")
	if err := os.WriteFile(classes, []byte(storageClasses), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		for _, file := range append([]string{classes}, files...) {
			s.kubectl("delete", "-f", file, "--ignore-not-found", "--timeout=60s")
		}
	})
	for _, file := range files {
		s.kubectl("apply", "--server-side", "-f", file)
	}
	if err := cluster.Established(s.Context(), shared.Kubeconfig()); err != nil {
		s.Fatal(err)
	}
	s.kubectl("apply", "-f", classes)
}

// keepOffOthers keeps guests off nodes that other tests have added: they have no storage.
func (s *storage) keepOffOthers() {
	s.Helper()
	for _, node := range strings.Fields(s.kubectl("get", "nodes", "-o", "name")) {
		if node != "node/"+shared.Name {
			s.kubectl("cordon", node)
			s.Cleanup(func() { s.kubectl("uncordon", node) })
		}
	}
}

// empty waits until nothing is left in the store: claims and snapshots went with their namespace.
func (s *storage) empty() {
	var left []string
	if !poll.Until(2*time.Minute, func() bool {
		left = s.items()
		return len(left) == 0
	}) {
		s.Errorf("the driver still has %s", left)
	}
}

// kubectl works in cleanups too.
func (s *storage) kubectl(args ...string) string {
	s.Helper()
	out, err := shared.Kubectl(context.WithoutCancel(s.Context()), args...)
	if err != nil {
		s.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// runGo runs go in the module of a folder.
func runGo(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"-C", folder}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// start runs a program until the end of the test. It has a process group of its own: nsenter has a child, and hands no signal on. When this process is killed,
// the kernel ends the program, and the end of the node's namespaces the driver.
func (s *storage) start(program string, args ...string) {
	s.Helper()
	log, err := os.Create(filepath.Join(s.dir, filepath.Base(program)+".log"))
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death signal is sent when the thread ends that started the child
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		defer log.Close()
		select {
		case err := <-ended:
			s.Errorf("%s ended by itself: %v", filepath.Base(program), err)
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			select {
			case <-ended: // by the signal
			case <-time.After(30 * time.Second):
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				s.Errorf("%s had to be killed", filepath.Base(program))
			}
		}
		if text, err := os.ReadFile(log.Name()); s.Failed() {
			s.Logf("== %s %v\n%s", filepath.Base(program), err, text[max(0, len(text)-4000):])
		}
	})
}

// mark is what the guest has written to the disk of a claim, read where the driver keeps it. See kiln.mark in test/guest.
func (s *storage) mark(namespace, claim string) string {
	s.Helper()
	syscall.Sync() // what loop devices still hold
	disk, err := os.Open(s.diskOf(namespace, claim))
	if err != nil {
		s.Fatal(err)
	}
	defer disk.Close()
	const sector = 512
	text := make([]byte, sector)
	if _, err := disk.ReadAt(text, 1<<20-sector); err != nil {
		s.Fatal(err)
	}
	return string(bytes.TrimSpace(text[:max(0, slices.Index(text, 0))]))
}

// diskOf returns where the driver keeps the disk of a claim that is bound.
func (s *storage) diskOf(namespace, claim string) string {
	s.Helper()
	volume := s.kubectl("--namespace", namespace, "get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
	handle := s.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.csi.volumeHandle}")
	path := filepath.Join(s.dir, "store/volumes", handle, "content")
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "disk.img")
	}
	return path
}

// items returns the folders of all volumes and snapshots that the driver has.
func (s *storage) items() []string {
	s.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, "store/*/*"))
	if err != nil {
		s.Fatal(err)
	}
	return found
}
