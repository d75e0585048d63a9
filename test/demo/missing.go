package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// docs/reference/support.md has the oldest Kubernetes and the versions of KubeVirt.
var (
	oldestKubernetes = version.MustParseGeneric("1.34")
	kubeVirts        = []string{"1.7", "1.8", "1.9"}
)

// look finds out what the installation needs to know about the cluster, and returns in one sentence what is missing. It changes nothing.
func (b *besideKubeVirt) look(ctx context.Context) error {
	for _, check := range []func(context.Context) error{b.reach, b.mayInstall, b.findKubeVirt, b.hasNoKiln, b.findPlatforms, b.findImage} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reach asks the API server for its version.
func (b *besideKubeVirt) reach(context.Context) error {
	if _, err := exec.LookPath("kubectl"); err != nil {
		return fmt.Errorf("the program kubectl is missing, by which Kiln is installed: %w", err)
	}
	serves, err := b.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the cluster of KUBECONFIG does not answer at %s, so that nothing was installed: %w", b.host, err)
	}
	found, err := version.ParseGeneric(serves.GitVersion)
	if err != nil {
		return fmt.Errorf("the cluster at %s says version '%s': %w", b.host, serves.GitVersion, err)
	}
	if found.LessThan(oldestKubernetes) {
		return fmt.Errorf("the cluster at %s has Kubernetes %s, and Kiln needs %s or later", b.host, found, oldestKubernetes)
	}
	return nil
}

// findKubeVirt finds the KubeVirt that runs the guests of the cluster.
func (b *besideKubeVirt) findKubeVirt(ctx context.Context) error {
	list, err := b.dynamic.Resource(schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "kubevirts"}).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && len(list.Items) == 0 {
		return fmt.Errorf("the cluster at %s has no KubeVirt, beside which Kiln would be installed: "+
			"install KubeVirt %s, or unset KUBECONFIG for a cluster on this machine", b.host, strings.Join(kubeVirts, ", "))
	}
	if err != nil {
		return fmt.Errorf("KubeVirt cannot be looked for: %w", err)
	}
	object := list.Items[0]
	b.namespace = object.GetNamespace()
	status, _ := object.Object["status"].(map[string]any)
	observed, _ := status["observedKubeVirtVersion"].(string)
	if found, err := version.ParseGeneric(observed); err == nil && !slices.Contains(kubeVirts, fmt.Sprintf("%d.%d", found.Major(), found.Minor())) {
		fmt.Printf("  KubeVirt %s was not tried with this version of Kiln, which was tried with %s\n", observed, strings.Join(kubeVirts, ", "))
	}
	return nil
}

// mayInstall asks whether the user is an administrator of the cluster: Kiln installs definitions, roles and webhooks.
func (b *besideKubeVirt) mayInstall(ctx context.Context) error {
	all := authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}}
	review, err := b.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorization.SelfSubjectAccessReview{Spec: all}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("the cluster at %s does not say what you may do: %w", b.host, err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("the user of KUBECONFIG lacks the rights of a cluster administrator at %s, which the installation of definitions and webhooks needs",
			b.host)
	}
	return nil
}

// hasNoKiln refuses a cluster that has Kiln already: its definitions and webhooks exist only once.
func (b *besideKubeVirt) hasNoKiln(ctx context.Context) error {
	_, err := b.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "kiln-validating", metav1.GetOptions{})
	switch {
	case err == nil:
		return fmt.Errorf("the cluster at %s has Kiln already: docs/how-to/install-beside-kubevirt.md says how to upgrade and how to remove it", b.host)
	case !apierrors.IsNotFound(err):
		return err
	}
	for _, name := range []string{system, demoNamespace} {
		if _, err := b.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("the cluster at %s has namespace '%s', which would be removed at the end: delete it if an earlier Kiln has left it", b.host, name)
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// findPlatforms finds out for which platforms the image is built, by the nodes.
func (b *besideKubeVirt) findPlatforms(ctx context.Context) error {
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		info := node.Status.NodeInfo
		if platform := info.OperatingSystem + "/" + info.Architecture; info.OperatingSystem == "linux" && !slices.Contains(b.platforms, platform) {
			b.platforms = append(b.platforms, platform)
		}
	}
	if len(b.platforms) == 0 {
		return fmt.Errorf("the cluster at %s has no Linux node on which Kiln's pods could run", b.host)
	}
	return nil
}

// findImage says which image the nodes run. No image of Kiln is published: either it is pushed, or the nodes have it.
func (b *besideKubeVirt) findImage(context.Context) error {
	switch {
	case b.registry != "" && b.image != "":
		return errors.New("REGISTRY and NODE_IMAGE are set: set REGISTRY to have the image built and pushed, or NODE_IMAGE if the nodes have it")
	case b.registry == "" && b.image == "":
		return errors.New("a registry is missing from which the nodes pull Kiln's image: set REGISTRY=HOST/PATH, to which this machine can push " +
			"('docker login HOST'), or NODE_IMAGE=NAME:TAG if each node has an image of 'make image IMAGE=kiln' (docs/how-to/images-without-registry.md)")
	}
	return nil
}
