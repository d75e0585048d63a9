package virtlauncher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kilnvm/kiln/test/installation"
	"github.com/kilnvm/kiln/test/node"
)

// Kiln is an installation of Kiln beside KubeVirt, of images of this tree and by the commands of docs/how-to/install-beside-kubevirt.md. An upgrade is a second
// value with another Version, which is installed over the first one.
type Kiln struct {
	// Root is the folder of this repository. Dir keeps images and manifests until the installation ends; it is made if it does not exist.
	Root, Dir string
	// Version is the version of the programs, and the tag of the images.
	Version string
	// Hook is "Sidecar" or "Plugin", the value of HOOK_PROTOCOL with the launcher's image as HOOK_IMAGE, or empty: then pods of guests have nothing of Kiln.
	// KubeVirt needs gate Sidecar or Plugins for it, see SetGates.
	Hook string

	archives []string
}

// beside is what docs/how-to/install-beside-kubevirt.md tells an operator to write for 'kubectl apply -k', with the folder of the manifests and the tag of the
// image.
const beside = `resources: [%[1]s/overlays/beside-kubevirt]
images: [{name: kiln, newTag: %[2]s}]
`

// plugin is the component of gate Plugins, with the folder of the manifests.
const plugin = `components: [%s/beside-kubevirt/plugin]
`

// hookImage is a patch that names the image of the hook.
const hookImage = `patches:
- target: {kind: Deployment, name: kiln-webhook}
  patch: |
    - {op: test, path: /spec/template/spec/containers/0/env/2/name, value: HOOK_IMAGE}
    - {op: replace, path: /spec/template/spec/containers/0/env/2/value, value: "%s"}
`

// Install makes the images, brings them to the nodes, applies the manifests to the cluster of the nodes, and waits until Kiln serves. It may be called again
// after a removal.
func (k *Kiln) Install(ctx context.Context, nodes ...*node.Node) (err error) {
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []*string{&k.Root, &k.Dir} {
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil { // kustomize follows '..' in paths without links
			return err
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if k.archives == nil {
		images := []string{"kiln"}
		if k.Hook != "" {
			images = append(images, "launcher")
		}
		if k.archives, err = installation.WriteImages(ctx, k.Root, k.Dir, k.Version, images...); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := k.Import(ctx, n); err != nil {
			return err
		}
	}
	return k.apply(ctx, nodes[0])
}

// Import brings the images to a further node.
func (k *Kiln) Import(ctx context.Context, n *node.Node) error {
	var errs []error
	for _, file := range k.archives {
		errs = append(errs, n.ImportImage(ctx, file))
	}
	return errors.Join(errs...)
}

// HookImage returns the name of the image of the hook.
func (k *Kiln) HookImage() string { return "kiln-launcher:" + k.Version }

// overlay returns the folder that is applied.
func (k *Kiln) overlay() string { return filepath.Join(k.Dir, "overlay") }

// apply applies the manifests, and waits until all pods are of this version.
func (k *Kiln) apply(ctx context.Context, n *node.Node) error {
	manifests, err := filepath.Rel(k.overlay(), filepath.Join(k.Root, "manifests")) // kustomize takes no absolute path
	if err != nil {
		return err
	}
	text := fmt.Sprintf(beside, manifests, k.Version)
	if k.Hook == "Plugin" {
		text += fmt.Sprintf(plugin, manifests)
	}
	if k.Hook != "" {
		text += fmt.Sprintf(hookImage, k.HookImage())
	}
	if err := errors.Join(os.MkdirAll(k.overlay(), 0o700), os.WriteFile(filepath.Join(k.overlay(), "kustomization.yaml"), []byte(text), 0o600)); err != nil {
		return err
	}
	return errors.Join(kubectl(ctx, n, "apply", "--server-side", "-k", k.overlay())(), k.Await(ctx, n))
}

// Await waits until all of Kiln's pods serve, and old ones are gone.
func (k *Kiln) Await(ctx context.Context, n *node.Node) error {
	for _, name := range []string{"kiln-webhook", "kiln-controller"} {
		if err := kubectl(ctx, n, "--namespace", "kiln-system", "rollout", "status", "--timeout=300s", "deployment/"+name)(); err != nil {
			return errors.Join(err, errors.New(KilnLogs(ctx, n)))
		}
	}
	return nil
}

// Remove removes Kiln, and waits until its pods are gone. Its definitions stay, with the objects of its kinds and namespace kiln-system.
func (k *Kiln) Remove(ctx context.Context, n *node.Node) error {
	configurations := kubectl(ctx, n, "delete", "mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating",
		"validatingwebhookconfiguration/kiln-policies")
	all := kubectl(ctx, n, "delete", "-k", k.overlay(), "-l", "kilnvm.io/uninstall!=keep", "--ignore-not-found", "--timeout=120s")
	pods := kubectl(ctx, n, "--namespace", "kiln-system", "wait", "--for=delete", "pods", "--all", "--timeout=120s")
	return errors.Join(configurations(), all(), pods())
}

// SetGates replaces the gates of KubeVirt, whose programs take them while they run.
func SetGates(ctx context.Context, n *node.Node, gates ...string) error {
	text, err := json.Marshal(append([]string{}, gates...)) // never null
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec": {"configuration": {"developerConfiguration": {"featureGates": %s}}}}`, text)
	return kubectl(ctx, n, "--namespace", Namespace, "patch", "kubevirt", "kubevirt", "--type=merge", "--patch", patch)()
}

// KilnLogs says what Kiln's own pods are and wrote.
func KilnLogs(ctx context.Context, n *node.Node) string {
	pods, _ := n.Kubectl(ctx, "--namespace", "kiln-system", "get", "pods", "-o", "wide")
	logs, _ := n.Kubectl(ctx, "--namespace", "kiln-system", "logs", "--prefix", "--tail=60", "--selector",
		"app.kubernetes.io/name in (kiln-webhook,kiln-controller)")
	return pods + logs
}
