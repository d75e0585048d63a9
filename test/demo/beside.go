package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/internal/oci"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The namespaces that 'make run' creates in a cluster of the user's, and deletes.
const (
	system        = "kiln-system"
	demoNamespace = "kiln-demo"
)

//go:embed beside.yaml
var besideObjects []byte

// besideKubeVirt is Kiln in a cluster of the user's, beside the KubeVirt that runs the guests there. It judges only the namespace kiln-demo.
type besideKubeVirt struct {
	root, dir string
	host      string // of the API server, for messages
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	// registry is REGISTRY, and image NODE_IMAGE or what was pushed to the registry.
	registry, image string
	// namespace is KubeVirt's, and platforms are the systems and architectures of the nodes.
	namespace string
	platforms []string
}

func newBesideKubeVirt(root, dir string) (*besideKubeVirt, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("KUBECONFIG '%s' names no cluster: %w", os.Getenv("KUBECONFIG"), err)
	}
	config.Timeout = 30 * time.Second
	b := &besideKubeVirt{root: root, dir: dir, host: config.Host, registry: strings.TrimSuffix(os.Getenv("REGISTRY"), "/"), image: os.Getenv("NODE_IMAGE")}
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	b.dynamic, err = dynamic.NewForConfig(config)
	return b, err
}

// run installs Kiln, shows what it does, stays until the context ends, and removes everything again. What is missing is said before anything is installed.
func (b *besideKubeVirt) run(ctx context.Context) (err error) {
	if err := b.look(ctx); err != nil {
		return err
	}
	fmt.Printf("Kiln is installed in the cluster at %s, beside the KubeVirt in namespace '%s'. It judges only namespace '%s'.\n",
		b.host, b.namespace, demoNamespace)
	if b.registry != "" {
		fmt.Printf("building the image for %s, and pushing it to %s\n", strings.Join(b.platforms, " and "), b.registry)
		if err := b.push(ctx); err != nil {
			return err
		}
	}
	defer func() {
		fmt.Println("\nremoving Kiln and namespace '" + demoNamespace + "'")
		err = errors.Join(err, b.remove())
	}()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"kubectl apply --server-side: Kiln with image " + b.image, b.install},
		{"creating an instancetype and a VM in namespace '" + demoNamespace + "'", b.create},
		{"a VM that contradicts its instancetype, which must be refused", b.showRefusal},
		{"what Kiln made of the VM", b.showVM},
	} {
		fmt.Println(step.what)
		if err := step.do(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C
			}
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	fmt.Printf("\nKiln stays until Ctrl-C, which removes it. In another terminal:\n"+
		"  kubectl label namespace NAME kilnvm.io/admission=warn # Kiln warns there, and refuses nothing\n"+
		"  bin/kubectl-kiln audit --runtime kubevirt # which VMs of the cluster it would refuse\n  bin/kubectl-kiln explain vm/demo -n %s\n", demoNamespace)
	<-ctx.Done()
	return nil
}

// push builds the image from this tree, and pushes it. Its tag has the time, because a tag is never moved and a tree that is edited has no version.
func (b *besideKubeVirt) push(ctx context.Context) error {
	tag := "run-" + time.Now().UTC().Format("20060102-150405")
	build := exec.CommandContext(ctx, "go", "run", "./manifests/images", "-o", b.dir, "-version", tag, "-platforms", strings.Join(b.platforms, ","), "kiln")
	build.Dir = b.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the image: %w\n%s", err, out)
	}
	// Container runtimes, too, speak plain HTTP with these addresses.
	plain := strings.HasPrefix(b.registry, "localhost:") || strings.HasPrefix(b.registry, "127.0.0.1:")
	client, err := oci.New(oci.Options{PlainHTTP: plain, UserAgent: "kiln-run"})
	if err != nil {
		return err
	}
	_, digest, err := client.PushArchive(ctx, filepath.Join(b.dir, "kiln.tar"), b.registry+"/kiln")
	if err != nil {
		return fmt.Errorf("this machine cannot push to REGISTRY: %w", err)
	}
	b.image = b.registry + "/kiln@" + digest.String()
	return nil
}

// overlay is the folder that is applied.
func (b *besideKubeVirt) overlay() string { return filepath.Join(b.dir, "overlay") }

// writeOverlay writes the kustomization: beside KubeVirt, and only in namespaces that opt in.
func (b *besideKubeVirt) writeOverlay() error {
	dir, err := filepath.EvalSymlinks(b.dir)
	if err != nil {
		return err
	}
	manifests, err := filepath.Rel(filepath.Join(dir, "overlay"), filepath.Join(b.root, "manifests")) // kustomize takes no absolute path
	if err != nil {
		return err
	}
	image := "newName: " + b.image
	if name, digest, pinned := strings.Cut(b.image, "@"); pinned {
		image = fmt.Sprintf("newName: %s, digest: '%s'", name, digest)
	} else if colon := strings.LastIndex(b.image, ":"); colon > strings.LastIndex(b.image, "/") {
		image = fmt.Sprintf("newName: %s, newTag: '%s'", b.image[:colon], b.image[colon+1:])
	}
	text := fmt.Sprintf("resources: [%[1]s/overlays/beside-kubevirt]\n"+
		"configMapGenerator: [{name: kiln-namespaces, literals: [system=%[2]s, launchers=kiln-launchers, kubevirt=%[3]s]}]\n"+
		"components: [%[1]s/beside-kubevirt/opt-in, %[1]s/namespace]\nimages: [{name: kiln, %[4]s}]\n", manifests, system, b.namespace, image)
	if err := os.MkdirAll(b.overlay(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.overlay(), "kustomization.yaml"), []byte(text), 0o600)
}

// install applies the overlay, and waits until the pods serve.
func (b *besideKubeVirt) install(ctx context.Context) error {
	if err := b.writeOverlay(); err != nil {
		return err
	}
	if _, err := b.kubectl(ctx, "", "apply", "--server-side", "-k", b.overlay()); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		_, err := b.kubectl(ctx, "", "wait", "--namespace", system, "--for=condition=Available", "--timeout=5s", "deployment", "--all")
		if err == nil {
			return nil
		}
		if refused := b.pullError(ctx); refused != "" {
			return fmt.Errorf("the nodes cannot pull the image, so that no pod of Kiln runs: REGISTRY must be one that the nodes reach and may read; a node says: %s",
				refused)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("Kiln's pods are not ready: %w\n%s", err, b.podStates(ctx)) //nolint:staticcheck // a name
		}
	}
}

// podStates returns the states of Kiln's pods, and the last lines of their logs.
func (b *besideKubeVirt) podStates(ctx context.Context) string {
	states, err := b.kubectl(ctx, "", "get", "pods", "--namespace", system)
	if err != nil {
		return err.Error()
	}
	for _, deployment := range []string{"kiln-controller", "kiln-webhook"} {
		lines, err := b.kubectl(ctx, "", "logs", "--namespace", system, "deployment/"+deployment, "--all-pods", "--prefix", "--tail=5")
		if err != nil {
			lines = err.Error()
		}
		states += lines
	}
	return states
}

// pullError returns the message of a pod whose node cannot pull the image. It is empty if no pod has such a message.
func (b *besideKubeVirt) pullError(ctx context.Context) string {
	pods, err := b.client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			waits := status.State.Waiting
			if waits != nil && slices.Contains([]string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}, waits.Reason) {
				return waits.Message
			}
		}
	}
	return ""
}

// create creates the namespace that is judged, the instancetype, and the VM as soon as Kiln judges it: the API server may take seconds until it asks a new
// webhook.
func (b *besideKubeVirt) create(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demoNamespace, Labels: map[string]string{"kilnvm.io/admission": "enabled"}}}
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	size, vm, _ := strings.Cut(string(besideObjects), "---\n")
	if _, err := b.kubectl(ctx, size, "create", "--namespace", demoNamespace, "-f", "-"); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		// A VM is pinned in a dry run, too, if its instancetype exists.
		out, err := b.kubectl(ctx, vm, "create", "--namespace", demoNamespace, "--dry-run=server", "-o", "yaml", "-f", "-")
		if err == nil && strings.Contains(out, "kilnvm.io/pins") {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the API server does not ask Kiln's webhook: %v\n%s", err, out)
		}
	}
	_, err := b.kubectl(ctx, vm, "create", "--namespace", demoNamespace, "-f", "-")
	return err
}

// showRefusal prints what the author of a VM reads that contradicts its instancetype.
func (b *besideKubeVirt) showRefusal(ctx context.Context) error {
	conflict, err := os.ReadFile(filepath.Join(b.root, "examples", "conflict.yaml"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(conflict), "instancetype: {name: small}", "instancetype: {kind: VirtualMachineInstancetype, name: small}", 1)
	_, err = b.kubectl(ctx, text, "create", "--namespace", demoNamespace, "--dry-run=server", "-f", "-")
	if err == nil {
		return errors.New("it was admitted")
	}
	fmt.Printf("  %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
	return nil
}

// showVM prints the pins of the VM.
func (b *besideKubeVirt) showVM(ctx context.Context) error {
	pins, err := b.kubectl(ctx, "", "get", "vm", "demo", "--namespace", demoNamespace, "-o", `jsonpath={.metadata.annotations.kilnvm\.io/pins}`)
	if err == nil && pins == "" {
		err = errors.New("the VM has no pins")
	}
	if err != nil {
		return err
	}
	fmt.Printf("  its pins: %s\n", pins)
	return nil
}

// remove removes everything that was created, as docs/how-to/install-beside-kubevirt.md says. The definitions are removed for good, because the cluster had
// no Kiln before.
func (b *besideKubeVirt) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, args := range [][]string{
		{"delete", "mutatingwebhookconfiguration/kiln-mutating", "validatingwebhookconfiguration/kiln-validating", "validatingwebhookconfiguration/kiln-policies"},
		{"delete", "namespace", demoNamespace},
		{"delete", "-k", b.overlay(), "-l", "kilnvm.io/uninstall!=keep"},
	} {
		if _, err := b.kubectl(ctx, "", append(args, "--ignore-not-found")...); err != nil {
			errs = append(errs, err)
		}
	}
	const kept = "crd,namespace,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
	for { // the API server forgets the policy that keeps them some seconds after its deletion
		_, err := b.kubectl(ctx, "", "delete", kept, "-l", "kilnvm.io/uninstall=keep", "--ignore-not-found")
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Kiln is installed") {
			return errors.Join(append(errs, err)...)
		}
		time.Sleep(2 * time.Second)
	}
}

// kubectl runs the user's kubectl with an input, and returns its standard output. The error has its standard error.
func (b *besideKubeVirt) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	var out, failed strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", args[0], err, strings.TrimSpace(failed.String()))
	}
	return out.String(), nil
}
