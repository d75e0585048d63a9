package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/node"
)

// shared is the node of all tests, with Kiln in it; each test has a namespace of its own. It is nil where the machine cannot have one.
var shared *node.Node

// Images of guests. The default pull policy of a tag other than 'latest' asks no registry.
const (
	kernelImage = "docker.io/library/guest-kernel:1"
	// diskImage is a containerDisk, from which the test guest boots by itself.
	diskImage = "docker.io/library/guest-disk:1"
	// tag is that of Kiln's own images.
	tag = "proof"
)

// kubelet gives containers that ask for whole CPUs these CPUs alone; one CPU of each node is kept for all others. Containers that were killed start again
// soon: kubelet's own bound is five minutes.
const kubelet = `cpuManagerPolicy: static
cpuManagerReconcilePeriod: 1s
systemReserved: {cpu: 500m}
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}`

// archives are the files of all images, for further nodes.
var archives []string

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// startTimeout bounds the start of node and Kiln, with what must be built and unpacked for them on a machine that has nothing yet.
const startTimeout = 25 * time.Minute

func runAll(m *testing.M) (code int, err error) {
	if node.Incapable() != nil {
		return m.Run(), nil // each test says why it is skipped
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := cluster.Dir("kiln-pods")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if shared, err = node.Run(ctx, node.Options{Restart: os.Getenv("NIGHTLY") != "", Kubelet: kubelet}); err != nil {
		return 0, err
	}
	if err = install(ctx, dir); err == nil {
		code = m.Run()
	}
	if code != 0 || err != nil {
		said, _ := shared.Kubectl(context.Background(), "--namespace", "kiln-system", "get", "pods", "-o", "wide")
		logs, _ := shared.Kubectl(context.Background(), "--namespace", "kiln-system", "logs", "--prefix", "--tail=60",
			"--selector", "app.kubernetes.io/name=kiln-controller")
		fmt.Fprintln(os.Stderr, said, logs, shared.Logs())
	}
	if failed := shared.Close(); err == nil {
		err = failed
	}
	return code, err
}

// install brings images to the node and Kiln into the cluster.
func install(ctx context.Context, dir string) error {
	if err := images(ctx, dir); err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks("../..")
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay")
	manifests, err := filepath.Rel(overlay, filepath.Join(root, "manifests")) // kustomize takes no absolute path
	if err != nil {
		return err
	}
	if err := os.Mkdir(overlay, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), fmt.Appendf(nil, kustomization, manifests, tag, stateClass), 0o600); err != nil {
		return err
	}
	if out, err := shared.Kubectl(ctx, "apply", "--server-side", "-k", overlay); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, wait := range [][]string{
		{"--namespace", "kiln-system", "wait", "--for=condition=Available", "--timeout=180s", "deployment", "--all"},
		{"wait", "--for=jsonpath={.metadata.labels.kilnvm\\.io/passt}=true", "--timeout=180s", "node/node-1"},
	} {
		if out, err := shared.Kubectl(ctx, wait...); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// kustomization installs Kiln with the images of this tree. Guests are emulated: on some machines a guest hangs under KVM.
const kustomization = `
resources: [%[1]s/overlays/rotation]
images: [{name: kiln, newTag: %[2]s}, {name: kiln-launcher, newTag: %[2]s}]
configMapGenerator:
- {name: kiln-configuration, namespace: kiln-system, literals: ["kubevirt.yaml={developerConfiguration: {useEmulation: true}, vmStateStorageClass: %[3]s}"]}
patches:
- target: {kind: Deployment, name: kiln-(webhook|controller)}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --config=/etc/kiln/configuration/kubevirt.yaml}
    - {op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: configuration, mountPath: /etc/kiln/configuration}}
    - {op: add, path: /spec/template/spec/volumes/-, value: {name: configuration, configMap: {name: kiln-configuration}}}
- target: {kind: Deployment, name: kiln-controller}
  patch: |
    - {op: test, path: /spec/template/spec/containers/0/env/3/name, value: LAUNCHER_IMAGE}
    - {op: replace, path: /spec/template/spec/containers/0/env/3/value, value: kiln-launcher:%[2]s} # kustomize's images do not reach it
- target: {kind: Deployment, name: kiln-.*}
  patch: |
    - {op: replace, path: /spec/replicas, value: 1} # two cores
`

// images makes the images of Kiln and of the guests, and imports them.
func images(ctx context.Context, dir string) error {
	build := exec.CommandContext(ctx, "go", "run", "./manifests/images", "-o", filepath.Join("bin", "images"), "-version", tag, "kiln", "launcher")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("images: %w\n%s", err, out)
	}
	raw, err := guest.BuildDisk(dir)
	if err != nil {
		return err
	}
	disk := filepath.Join(dir, "disk.qcow2")
	if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-O", "qcow2", raw, disk).CombinedOutput(); err != nil {
		return fmt.Errorf("qemu-img: %w: %s", err, out)
	}
	files := map[string]map[string]string{
		kernelImage: {"boot/vmlinuz": filepath.Join(dir, "boot/vmlinuz"), "boot/initrd": filepath.Join(dir, "boot/initrd")},
		diskImage:   {"disk/disk.qcow2": disk},
	}
	archives = []string{"../../bin/images/kiln.tar", "../../bin/images/launcher.tar"}
	for image, content := range files {
		root := &archive.Root{}
		for name, source := range content {
			if err := root.AddFile(name, source, 0o444); err != nil {
				return err
			}
		}
		file := filepath.Join(dir, strings.NewReplacer("/", "-", ":", "-").Replace(image)+".tar")
		if err := archive.Write(file, image, archive.Image{OS: "linux", Architecture: "amd64", Root: root}); err != nil {
			return err
		}
		archives = append(archives, file)
	}
	var errs []error
	for _, file := range archives {
		errs = append(errs, shared.ImportImage(ctx, file))
	}
	return errors.Join(errs...)
}
