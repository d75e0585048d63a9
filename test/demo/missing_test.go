package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// someones is a cluster that lacks nothing, except what a test changes.
type someones struct {
	kubernetes string
	broken     error
	kubevirts  []runtime.Object
	mayAll     bool
	objects    []runtime.Object
	registry   string
	image      string
}

func installedKubeVirt(namespace, observed string) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
		"metadata": map[string]any{"name": "kubevirt", "namespace": namespace}, "status": map[string]any{"observedKubeVirtVersion": observed}}}
}

func linuxNode(name, architecture string) runtime.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: architecture}}}
}

// TestMissing: what is missing in a cluster is said in one sentence that names it, before anything is created.
func TestMissing(t *testing.T) {
	bin := t.TempDir()                                                                                        // 'make run' starts the user's kubectl
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	for _, test := range []struct {
		name, want string
		change     func(*someones)
	}{
		{"nothing", "", func(*someones) {}},
		{"an image that nodes have", "", func(c *someones) { c.registry, c.image = "", "kiln:v1" }},
		{"a cluster", "does not answer at https://cluster.example.org", func(c *someones) { c.broken = errors.New("connection refused") }},
		{"a later Kubernetes", "has Kubernetes 1.33.9, and Kiln needs 1.34", func(c *someones) { c.kubernetes = "v1.33.9-gke.1" }},
		{"KubeVirt", "has no KubeVirt, beside which Kiln would be installed", func(c *someones) { c.kubevirts = nil }},
		{"rights", "lacks the rights of a cluster administrator", func(c *someones) { c.mayAll = false }},
		{"a cluster without Kiln", "has Kiln already", func(c *someones) {
			c.objects = append(c.objects, &admission.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kiln-validating"}})
		}},
		{"a namespace for the demo", "has namespace 'kiln-demo'", func(c *someones) {
			c.objects = append(c.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kiln-demo"}})
		}},
		{"nodes", "has no Linux node", func(c *someones) { c.objects = nil }},
		{"a registry", "a registry is missing from which the nodes pull Kiln's image: set REGISTRY=HOST/PATH", func(c *someones) { c.registry = "" }},
		{"a decision", "set REGISTRY to have the image built and pushed, or NODE_IMAGE", func(c *someones) { c.image = "kiln:v1" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := someones{kubernetes: "v1.36.3", kubevirts: []runtime.Object{installedKubeVirt("openshift-cnv", "v1.9.0")}, mayAll: true,
				objects: []runtime.Object{linuxNode("a", "amd64"), linuxNode("b", "arm64"), linuxNode("c", "amd64")}, registry: "registry.example.org/me"}
			test.change(&c)
			b, created := c.beside(t)
			err := b.look(t.Context())
			if test.want == "" {
				if err != nil || b.namespace != "openshift-cnv" || strings.Join(b.platforms, " ") != "linux/amd64 linux/arm64" {
					t.Errorf("KubeVirt in '%s', platforms %q: %v", b.namespace, b.platforms, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want a sentence with '%s'", err, test.want)
			}
			if *created > 0 {
				t.Errorf("%d objects were created", *created)
			}
		})
	}
}

// beside returns an installation for the cluster, and counts the objects that are created.
func (c someones) beside(t *testing.T) (*besideKubeVirt, *int) {
	t.Helper()
	client := fake.NewClientset(c.objects...)
	discovery, ok := client.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatalf("%T", client.Discovery())
	}
	discovery.FakedServerVersion = &version.Info{GitVersion: c.kubernetes}
	if c.broken != nil {
		client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.broken })
	}
	created := 0
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetResource().Resource == "selfsubjectaccessreviews" {
			return true, &authorization.SelfSubjectAccessReview{Status: authorization.SubjectAccessReviewStatus{Allowed: c.mayAll}}, nil
		}
		created++
		return false, nil, nil
	})
	kinds := map[schema.GroupVersionResource]string{{Group: "kubevirt.io", Version: "v1", Resource: "kubevirts"}: "KubeVirtList"}
	return &besideKubeVirt{client: client, dynamic: fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, c.kubevirts...),
		host: "https://cluster.example.org", registry: c.registry, image: c.image}, &created
}
