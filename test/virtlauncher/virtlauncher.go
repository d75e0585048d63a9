// Package virtlauncher installs KubeVirt v1.9.0 on nodes of package node, so that guests run under KubeVirt's own virt-launcher: virt-api, virt-controller and
// virt-handler in pods, as virt-operator installs them, and images of package images. virt-operator does not run. KubeVirt's programs are not patched.
//
// What virt-operator would do besides creating its objects (test/kubevirt/objects prints them):
//
//   - It certifies: objects prints Secrets with certificates, and ConfigMaps, webhook configurations and APIServices with their authority. Nobody renews them
//     here: they are valid for a day.
//   - It writes the status of the KubeVirt object, which virt-api and virt-controller read: see kubeVirt.
//   - It runs as many replicas as the cluster has nodes for; here each Deployment has one, because of two cores.
//   - It creates instancetypes and preferences, virt-exportproxy and virt-synchronization-controller, which are left out.
//
// The node must have kubelet's folder at /var/lib/kubelet, and shared mounts, as nodes of package node have. virt-handler's first container, of the image
// virt-launcher, asks libvirt for the host's capabilities (node-labeller.sh). virt-handler makes labels of the Node of them, and does not start without them.
//
// Guests are emulated (useEmulation), so that pods do not ask for /dev/kvm: on some machines a guest hangs under KVM. So node-labeller.sh asks libvirt for
// the CPU of emulated guests (PREFERRED_VIRTTYPE, which spec.customizeComponents of the KubeVirt object can set in a cluster). If the node has /dev/kvm, it
// would ask for the CPU of guests under KVM. On a virtual machine this may be a CPU that KubeVirt has no label for: then no guest with CPU model host-model can
// be migrated.
//
// KubeVirt's containers and guests request more CPU than by default, see cpuRequest.
package virtlauncher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/node"
	"github.com/kilnvm/kiln/test/poll"
	"github.com/kilnvm/kiln/test/virtlauncher/images"
)

// Namespace is the namespace of KubeVirt.
const Namespace = "kubevirt"

// Kubelet is more YAML for kubelet: virt-launcher gives a guest the search domains of its pod, and ends at the domain '.', which kubelet writes without a
// server of names. Nobody serves at this address.
const Kubelet = "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local"

// KubeVirt is an installation.
type KubeVirt struct {
	// Root is the folder of this repository, and Dir an empty one for what the installation needs until it ends.
	Root, Dir string
	// Gates are feature gates that are turned on.
	Gates []string

	archives []string
}

// Incapable returns why this machine cannot run guests of KubeVirt; nil if it can.
func Incapable() error {
	if err := node.Incapable(); err != nil {
		return err
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return fmt.Errorf("virt-launcher and virt-handler are built with a C compiler: install package 'gcc': %w", err)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("guests of KubeVirt have a tap device: %w", err)
	}
	return nil
}

// Install brings the images to the node and KubeVirt into its cluster, and waits until it serves.
func (k *KubeVirt) Install(ctx context.Context, n *node.Node) (err error) {
	for _, dir := range []*string{&k.Root, &k.Dir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	k.archives, err = images.Write(ctx, images.Folders{Root: k.Root, Work: k.Dir, Cache: filepath.Join(k.Root, "bin", "images", "cache")})
	if err != nil {
		return err
	}
	if err := k.Import(ctx, n); err != nil {
		return err
	}
	objects, err := k.objects(ctx)
	if err != nil {
		return err
	}
	return k.apply(ctx, n, objects)
}

// Archives returns the archives of all images, which Install and ImportGuests have made.
func (k *KubeVirt) Archives() []string { return k.archives }

// Import brings the images to a further node.
func (k *KubeVirt) Import(ctx context.Context, n *node.Node) error {
	var errs []error
	for _, file := range k.archives {
		errs = append(errs, n.ImportImage(ctx, file))
	}
	return errors.Join(append(errs, nameByDigest(ctx, n))...)
}

// Serve brings all images to a further node, and waits until virt-handler serves there.
func (k *KubeVirt) Serve(ctx context.Context, n *node.Node) error {
	if err := k.Import(ctx, n); err != nil {
		return err
	}
	return k.AwaitHandler(ctx, n)
}

// AwaitHandler waits until virt-handler is ready on all nodes, and takes guests on one of them.
func (k *KubeVirt) AwaitHandler(ctx context.Context, n *node.Node) error {
	return errors.Join(kubectl(ctx, n, "--namespace", Namespace, "rollout", "status", "--timeout=300s", "daemonset/virt-handler")(),
		kubectl(ctx, n, "wait", "--for=jsonpath={.metadata.labels.kubevirt\\.io/schedulable}=true", "--timeout=120s", "node/"+n.Name)())
}

// objects returns what virt-operator installs.
func (k *KubeVirt) objects(ctx context.Context) (all []map[string]any, err error) {
	if err := cluster.BuildObjects(ctx, k.Root, k.Dir); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(k.Dir, "objects"), "-namespace", Namespace, "-workloads").Output()
	if err != nil {
		return nil, fmt.Errorf("what virt-operator installs: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return nil, err
		}
		if err := adapt(object); err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

// cpuRequest is what each container of KubeVirt requests here. virt-operator's request is 5m or 10m: a container with it gets no CPU for minutes if the machine
// has much other work.
const cpuRequest = "150m"

// adapt changes a workload as the comment of the package says.
func adapt(object map[string]any) error {
	switch object["kind"] {
	case "Deployment":
		return errors.Join(eachContainer(object, "containers", requestCPU), unstructured.SetNestedField(object, int64(1), "spec", "replicas"))
	case "DaemonSet":
		return errors.Join(eachContainer(object, "containers", requestCPU), eachContainer(object, "initContainers", preferEmulation))
	}
	return nil
}

// eachContainer changes each container of a workload. There must be one.
func eachContainer(object map[string]any, list string, change func(container map[string]any) error) error {
	path := []string{"spec", "template", "spec", list}
	containers, _, err := unstructured.NestedSlice(object, path...)
	if err != nil || len(containers) == 0 {
		return fmt.Errorf("a %s of virt-operator's has %d %s: %w", object["kind"], len(containers), list, err)
	}
	for _, container := range containers {
		if err := change(container.(map[string]any)); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(object, containers, path...)
}

func requestCPU(container map[string]any) error {
	return unstructured.SetNestedField(container, cpuRequest, "resources", "requests", "cpu")
}

// preferEmulation sets the variable of node-labeller.sh.
func preferEmulation(container map[string]any) error {
	for _, variable := range container["env"].([]any) {
		if variable := variable.(map[string]any); variable["name"] == "PREFERRED_VIRTTYPE" {
			variable["value"] = "qemu"
		}
	}
	return nil
}

// kubeVirt returns the KubeVirt object, and the status that virt-operator writes. virt-api refuses VMIs without an architecture if
// defaultArchitecture is empty.
func (k *KubeVirt) kubeVirt() (object, status map[string]any) {
	gates := append([]string{}, k.Gates...) // never null
	object = map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": map[string]any{"namespace": Namespace, "name": "kubevirt"},
		"spec": map[string]any{
			"workloadUpdateStrategy": map[string]any{"workloadUpdateMethods": []string{"LiveMigrate"}},
			// A guest requests a quarter of a CPU for each of its own, for the reason of cpuRequest. By default it is a tenth.
			"configuration": map[string]any{"developerConfiguration": map[string]any{"useEmulation": true, "featureGates": gates, "cpuAllocationRatio": 4}},
		}}
	status = map[string]any{"status": map[string]any{"phase": "Deployed", "defaultArchitecture": "amd64", "observedKubeVirtVersion": images.Tag,
		"targetKubeVirtVersion": images.Tag, "observedDeploymentID": "test", "targetDeploymentID": "test"}}
	return object, status
}

// apply creates the objects in the order in which they can be created, and waits until KubeVirt serves.
func (k *KubeVirt) apply(ctx context.Context, n *node.Node, objects []map[string]any) error {
	space := map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": Namespace, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "privileged"}}}
	definitions, others := []map[string]any{space}, []map[string]any{}
	for _, object := range objects {
		if object["kind"] == "CustomResourceDefinition" {
			definitions = append(definitions, object)
		} else {
			others = append(others, object)
		}
	}
	if err := k.write(ctx, n, "definitions", definitions); err != nil {
		return err
	}
	object, status := k.kubeVirt()
	patch, err := json.Marshal(status)
	if err != nil {
		return err
	}
	steps := []func() error{
		established(ctx, n),
		func() error { return k.write(ctx, n, "kubevirt", []map[string]any{object}) },
		kubectl(ctx, n, "--namespace", Namespace, "patch", "kubevirt", "kubevirt", "--subresource=status", "--type=merge", "--patch", string(patch)),
		func() error { return k.write(ctx, n, "others", others) },
		kubectl(ctx, n, "--namespace", Namespace, "wait", "--for=condition=Available", "--timeout=300s", "deployment", "--all"),
		kubectl(ctx, n, "wait", "--for=condition=Available", "--timeout=60s", "apiservice/v1.subresources.kubevirt.io"),
		func() error { return k.AwaitHandler(ctx, n) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// write creates objects from a file.
func (k *KubeVirt) write(ctx context.Context, n *node.Node, name string, objects []map[string]any) error {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err
	}
	file := filepath.Join(k.Dir, name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	return kubectl(ctx, n, "create", "-f", file)() // not apply, to which virt-api has a port twice
}

// established returns a step that waits until the API server serves all definitions. While one of them has no condition yet, kubectl does not wait, but ends
// with an error: then it is called again.
func established(ctx context.Context, n *node.Node) func() error {
	return func() (err error) {
		poll.Until(time.Minute, func() bool {
			err = kubectl(ctx, n, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")()
			return err == nil || ctx.Err() != nil
		})
		return err
	}
}

// kubectl returns a step that calls kubectl.
func kubectl(ctx context.Context, n *node.Node, args ...string) func() error {
	return func() error {
		if out, err := n.Kubectl(ctx, args...); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args[:min(4, len(args))], " "), err, out)
		}
		return nil
	}
}

// Logs says what KubeVirt's own pods are and wrote, and what happened last in the cluster.
func Logs(ctx context.Context, n *node.Node) string {
	var all []string
	for _, args := range [][]string{
		{"get", "pods", "--all-namespaces", "-o", "wide"}, {"get", "events", "--all-namespaces"},
		{"--namespace", Namespace, "logs", "--prefix", "--tail=80", "--selector", "kubevirt.io=virt-handler", "--all-containers"},
		{"--namespace", Namespace, "logs", "--prefix", "--tail=40", "--selector", "kubevirt.io=virt-controller"},
		{"--namespace", Namespace, "logs", "--prefix", "--tail=20", "--selector", "kubevirt.io=virt-api"},
	} {
		out, _ := n.Kubectl(ctx, args...)
		all = append(all, out)
	}
	return strings.Join(slices.Concat(all, []string{n.Logs()}), "\n")
}
