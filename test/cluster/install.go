package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// kustomize builds what somebody would apply who installs Kiln's overlay of the options into their namespaces.
func (c *Cluster) kustomize(ctx context.Context) error { return c.overlay(ctx, c.Overlay) }

// FailOpen installs overlay fail-open over what is installed: VMs are admitted while the webhook is down, and policies keep the rules.
func (c *Cluster) FailOpen(ctx context.Context) error {
	c.manifests = nil
	if err := c.overlay(ctx, "overlays/fail-open"); err != nil {
		return err
	}
	return errors.Join(c.applyAll(ctx, c.of(policies)), c.apply(ctx, nil))
}

// overlay builds a folder of the manifests, with components.
func (c *Cluster) overlay(ctx context.Context, folder string, components ...string) error {
	// A relative path with '..' leads elsewhere where a folder on the way is a symbolic link.
	overlay, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return err
	}
	overlay = filepath.Join(overlay, "overlay")
	root, err := filepath.EvalSymlinks(c.sourcesOf(c.Release))
	if err != nil {
		return err
	}
	manifests, err := filepath.Rel(overlay, filepath.Join(root, "manifests")) // kustomize takes no absolute path
	if err != nil {
		return err
	}
	var listed strings.Builder
	for _, component := range components {
		listed.WriteString(manifests + "/" + component + ", ")
	}
	text := fmt.Sprintf("resources: [%[1]s/%[5]s]\ncomponents: [%[6]s%[1]s/namespace]\n"+
		"configMapGenerator: [{name: kiln-namespaces, literals: [system=%[2]s, launchers=%[3]s, kubevirt=%[4]s]}]\n",
		manifests, c.Namespace, c.Launchers, c.KubeVirt, folder, listed.String())
	file := filepath.Join(overlay, "kustomization.yaml")
	if err := errors.Join(os.MkdirAll(overlay, 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return err
	}
	built, stderr, err := c.Kubectl(ctx, "", "kustomize", overlay)
	if err != nil {
		return withOutput(err, stderr)
	}
	c.manifests, err = decoded(built)
	return err
}

// decoded are the objects of a text of YAML or JSON documents.
func decoded(text string) (all []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 1<<20)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// Kinds of the manifests that are not simply applied.
var (
	definitions = []string{"CustomResourceDefinition"}
	// Policies are compiled against the definitions.
	policies = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	// Our webhook is a process of this machine.
	configurations = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	// What would run in the cluster are processes of this machine.
	pods = []string{"DaemonSet", "Deployment", "Service", "PodDisruptionBudget"}
	// So is our API server.
	apiServices = []string{"APIService"}
)

// of are the manifests of these kinds.
func (c *Cluster) of(kinds []string) (some []*unstructured.Unstructured) {
	for _, object := range c.manifests {
		if slices.Contains(kinds, object.GetKind()) {
			some = append(some, object)
		}
	}
	return some
}

// install applies what the webhook needs, as somebody would who installs Kiln; not with force, so that another owner's
// definitions in a user's cluster stay as they are and are named.
func (c *Cluster) install(ctx context.Context) error {
	if err := c.define(ctx); err != nil {
		return err
	}
	apart := slices.Concat(definitions, policies, configurations, pods, apiServices)
	others := slices.DeleteFunc(slices.Clone(c.manifests), func(object *unstructured.Unstructured) bool {
		return slices.Contains(apart, object.GetKind())
	})
	return errors.Join(c.applyAll(ctx, others), c.applyAll(ctx, c.of(policies)))
}

// define applies the definitions.
func (c *Cluster) define(ctx context.Context) error {
	if err := c.applyAll(ctx, c.of(definitions)); err != nil {
		return err
	}
	var names []string
	for _, definition := range c.of(definitions) {
		names = append(names, definition.GetName())
	}
	return Established(ctx, c.Kubeconfig, names...)
}

// applyAll applies objects in their order, which is kustomize's: namespaces come first.
func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	var all bytes.Buffer
	for _, object := range objects {
		if err := json.NewEncoder(&all).Encode(object); err != nil {
			return err
		}
	}
	_, stderr, err := c.Kubectl(ctx, all.String(), "apply", "--server-side", "-f", "-")
	return withOutput(err, stderr)
}
