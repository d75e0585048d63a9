package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Beside is a cluster with the real KubeVirt of module test/kubevirt: what virt-operator installs, virt-api and virt-controller. Kiln can be added and removed.
// Nodes are played: see nodes.
type Beside struct {
	*Cluster
	objects    []*unstructured.Unstructured // what virt-operator installs
	api        *virtAPI
	controller *virtController
	nodes      *nodes
}

// StartKubeVirt brings up a control plane with KubeVirt, in namespace o.KubeVirt and with configuration o.Configuration. Nothing of Kiln is installed:
// AddKiln does that, by default with overlays/beside-kubevirt. On an error nothing stays behind.
func StartKubeVirt(ctx context.Context, o Options) (*Beside, error) {
	o.Overlay = cmp.Or(o.Overlay, "overlays/beside-kubevirt")
	b := &Beside{Cluster: newCluster(o)}
	b.beside = true
	steps := []step{
		{"building Kiln's programs and the control plane", b.build},
		{"building KubeVirt's programs", b.buildKubeVirt},
		{b.which(), b.controlPlane},
		{"installing what virt-operator installs", b.installKubeVirt},
		{"starting virt-api", b.startVirtAPI},
		{"registering virt-api", b.registerVirtAPI},
		{"starting virt-controller", b.startVirtController},
		{"adding nodes", b.startNodes},
	}
	_, err := b.take(ctx, steps)
	return b, err
}

// Close ends everything.
func (b *Beside) Close() error {
	if b.nodes != nil {
		b.nodes.stop()
	}
	if b.api != nil && b.api.balancer != nil {
		b.api.balancer.listener.Close()
	}
	return b.Cluster.Close()
}

// buildKubeVirt builds KubeVirt's programs, and asks what virt-operator installs.
func (b *Beside) buildKubeVirt(ctx context.Context) error {
	objects := linkedWithKubeVirt(b.Root, "./objects")
	if err := errors.Join(kubeVirt(b.Root, "virt-api", "virt-controller", "virtctl").build(ctx, b.bin), objects.build(ctx, b.bin)); err != nil {
		return err
	}
	out, stderr, err := b.run(ctx, b.Program("objects"), "", "-namespace", b.KubeVirt)
	if err != nil {
		return withOutput(err, stderr)
	}
	b.objects, err = decoded(out)
	return err
}

// installed are virt-operator's objects of some kinds.
func (b *Beside) installed(kinds ...string) (some []*unstructured.Unstructured) {
	for _, object := range b.objects {
		if slices.Contains(kinds, object.GetKind()) {
			some = append(some, object)
		}
	}
	return some
}

// networkDefinition is the kind of Multus, whose objects virt-controller reads for networks that are plugged in.
const networkDefinition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"}, "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced",
"names": {"plural": "network-attachment-definitions", "singular": "network-attachment-definition", "kind": "NetworkAttachmentDefinition",
"shortNames": ["nad"]}, "versions": [{"name": "v1", "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

// installKubeVirt creates what virt-operator installs, except what needs a running server: webhook configurations and APIServices. virt-controller's
// Deployment starts nothing here: this control plane has no controller of Deployments, and in a cluster that has one there are no replicas. It tells Kiln that
// KubeVirt makes VMIs.
func (b *Beside) installKubeVirt(ctx context.Context) error {
	networks := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(networkDefinition), networks); err != nil {
		return err
	}
	if err := b.createAll(ctx, append(b.installed(definitions...), networks)); err != nil {
		return err
	}
	if err := Established(ctx, b.Kubeconfig); err != nil {
		return err
	}
	if err := b.MakeNamespace(ctx, b.KubeVirt); err != nil {
		return err
	}
	for _, deployment := range b.installed("Deployment") {
		if !b.own {
			if err := unstructured.SetNestedField(deployment.Object, int64(0), "spec", "replicas"); err != nil {
				return err
			}
		}
	}
	for _, kinds := range [][]string{
		{"ServiceAccount"}, {"ClusterRole", "Role"}, {"ClusterRoleBinding", "RoleBinding"}, {"Deployment"},
		{"ValidatingAdmissionPolicy"}, {"ValidatingAdmissionPolicyBinding"},
	} {
		if err := b.createAll(ctx, b.installed(kinds...)); err != nil {
			return err
		}
	}
	return b.createKubeVirt(ctx)
}

// created is how many objects are created at once.
const created = 8

// createAll creates objects in any order.
func (c *Cluster) createAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(created)
	for _, object := range objects {
		group.Go(func() error {
			if _, err := c.Create(ctx, object); err != nil {
				return fmt.Errorf("%s '%s': %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// kubeVirtObject is the KubeVirt object of tests: virt-controller plugs in what needs a migration by migrating.
const kubeVirtObject = `{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"},
"spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]}}}`

// kubeVirtStatus is what virt-operator writes. virt-api refuses VMIs of an architecture that defaultArchitecture leaves open.
const kubeVirtStatus = `{"status": {"phase": "Deployed", "defaultArchitecture": "amd64", "observedKubeVirtVersion": "v1.9.0", "targetKubeVirtVersion": "v1.9.0",
"observedDeploymentID": "test", "targetDeploymentID": "test"}}`

// createKubeVirt creates the KubeVirt object with its status, as virt-operator leaves it.
func (b *Beside) createKubeVirt(ctx context.Context) error {
	object, settings := &unstructured.Unstructured{}, map[string]any{}
	if err := json.Unmarshal([]byte(kubeVirtObject), object); err != nil {
		return err
	}
	text := b.Configuration
	if text == "" {
		text = configuration
	}
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	if err := unstructured.SetNestedMap(object.Object, settings, "spec", "configuration"); err != nil {
		return err
	}
	object.SetNamespace(b.KubeVirt)
	if _, err := b.Create(ctx, object); err != nil {
		return err
	}
	return b.MergePatch(ctx, In{b.KubeVirt, "kubevirt"}, "kubevirt", kubeVirtStatus, "status")
}

// pkiDir is the folder of virt-api's certificate, which is its own CA.
func (b *Beside) pkiDir() string { return filepath.Join(b.Dir, "kubevirt") }

// ignoreMissing leaves out the error that something is not there.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
