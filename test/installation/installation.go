// Package installation installs Kiln on a node of package node, from images of this tree.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/manifests/images/archive"
	"github.com/kilnvm/kiln/test/node"
)

// tag is the tag of Kiln's own images.
const tag = "proof"

// Installation is what is installed, and from where.
type Installation struct {
	// Root is the folder of this repository, and Dir an empty one for what the installation needs until it ends.
	Root, Dir string
	// StateClass is vmStateStorageClass of KubeVirt's configuration.
	StateClass string
	// Images are further images by their names: the files of each by their paths in it.
	Images map[string]map[string]string

	archives []string
}

// Install brings the images to the node and Kiln into its cluster, and waits until both serve.
func (i *Installation) Install(ctx context.Context, n *node.Node) (err error) {
	for _, dir := range []*string{&i.Root, &i.Dir} {
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil {
			return err
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if err := i.images(ctx); err != nil {
		return err
	}
	if err := i.Import(ctx, n); err != nil {
		return err
	}
	return i.apply(ctx, n)
}

// WriteImages writes archives of images of this tree below a folder, with a version of their programs, which is also their tag. It returns the paths of the
// archives.
func WriteImages(ctx context.Context, root, dir, version string, names ...string) (archives []string, err error) {
	// Not bin/images: others build images there, with other tags, and archives may be imported much later.
	out := filepath.Join(dir, "images")
	build := exec.CommandContext(ctx, "go", append([]string{"run", "./manifests/images", "-o", out, "-cache", filepath.Join("bin", "images", "cache"),
		"-version", version}, names...)...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("images: %w\n%s", err, out)
	}
	for _, name := range names {
		archives = append(archives, filepath.Join(out, name+".tar"))
	}
	return archives, nil
}

// images makes the images of Kiln, and the further ones.
func (i *Installation) images(ctx context.Context) (err error) {
	if i.archives, err = WriteImages(ctx, i.Root, i.Dir, tag, "kiln", "launcher"); err != nil {
		return err
	}
	for image, content := range i.Images {
		file, err := WriteImage(i.Dir, image, content)
		if err != nil {
			return err
		}
		i.archives = append(i.archives, file)
	}
	return nil
}

// WriteImage writes an image of files, by their paths in it, and returns the path of its archive below dir.
func WriteImage(dir, image string, content map[string]string) (file string, err error) {
	root := &archive.Root{}
	for name, source := range content {
		if err := root.AddFile(name, source, 0o444); err != nil {
			return "", err
		}
	}
	file = filepath.Join(dir, strings.NewReplacer("/", "-", ":", "-").Replace(image)+".tar")
	return file, archive.Write(file, image, archive.Image{OS: "linux", Architecture: "amd64", Root: root})
}

// Archives returns the archives of all images, which Install has made.
func (i *Installation) Archives() []string { return i.archives }

// Import brings the images to a further node.
func (i *Installation) Import(ctx context.Context, n *node.Node) error {
	var errs []error
	for _, file := range i.archives {
		errs = append(errs, n.ImportImage(ctx, file))
	}
	return errors.Join(errs...)
}

// kustomization installs Kiln. Guests are emulated: on some machines a guest hangs under KVM.
const kustomization = `
resources: [%[1]s/overlays/apiserver]
images: [{name: kiln, newTag: %[2]s}, {name: kiln-launcher, newTag: %[2]s}]
configMapGenerator:
- {name: kiln-configuration, namespace: kiln-system, literals: ["kubevirt.yaml={developerConfiguration: {useEmulation: true}, vmStateStorageClass: '%[3]s'}"]}
patches:
- target: {kind: Deployment, name: kiln-(webhook|controller|apiserver)}
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
- target: {kind: DaemonSet, name: kiln-devices-cpu} # reports the CPUs of emulated guests
  patch: |
    - {op: remove, path: /spec/template/spec/nodeSelector/kilnvm.io~1kvm}
    - {op: remove, path: /spec/template/spec/containers/0/resources/limits/devices.kubevirt.io~1kvm}
`

func (i *Installation) apply(ctx context.Context, n *node.Node) error {
	overlay := filepath.Join(i.Dir, "overlay")
	manifests, err := filepath.Rel(overlay, filepath.Join(i.Root, "manifests")) // kustomize takes no absolute path
	if err != nil {
		return err
	}
	if err := os.Mkdir(overlay, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), fmt.Appendf(nil, kustomization, manifests, tag, i.StateClass), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", overlay},
		{"--namespace", "kiln-system", "wait", "--for=condition=Available", "--timeout=180s", "deployment", "--all"},
	} {
		if out, err := n.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
		}
	}
	return AwaitPasst(ctx, n)
}

// AwaitPasst waits until the DaemonSet of devices has prepared a node for guests on the pod network.
func AwaitPasst(ctx context.Context, n *node.Node) error {
	out, err := n.Kubectl(ctx, "wait", "--for=jsonpath={.metadata.labels.kilnvm\\.io/passt}=true", "--timeout=180s", "node/"+n.Name)
	if err != nil {
		pods, _ := n.Kubectl(ctx, "--namespace", "kiln-devices", "describe", "pods")
		return fmt.Errorf("node '%s' does not serve passt: %w: %s\n%s", n.Name, err, out, pods)
	}
	return nil
}

// Logs says what Kiln's own pods are and wrote.
func Logs(ctx context.Context, n *node.Node) string {
	pods, _ := n.Kubectl(ctx, "--namespace", "kiln-system", "get", "pods", "-o", "wide")
	logs, _ := n.Kubectl(ctx, "--namespace", "kiln-system", "logs", "--prefix", "--tail=60", "--selector", "app.kubernetes.io/name=kiln-controller")
	return pods + logs + n.Logs()
}
