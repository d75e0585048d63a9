//go:build js && wasm

package main

import (
	"errors"
	"io"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What 'kubectl kiln' has on a user's machine, and a web page has not.

// noCluster is the cluster of a web page, which connects to no other origin.
type noCluster struct{}

var errNoCluster = errors.New("a web page reaches no cluster: give the objects as files with -f")

// Namespace returns the namespace of a kubeconfig that names none.
func (noCluster) Namespace() (string, error) { return "default", nil }

func (noCluster) NamespaceFlag() string { return "" }

func (noCluster) User() authenticationv1.UserInfo { return authenticationv1.UserInfo{} }

func (noCluster) RESTConfig() (*rest.Config, error) { return nil, errNoCluster }

func (noCluster) Client(io.Writer) (client.Client, error) { return nil, errNoCluster }

func (noCluster) Objects([]string) ([]*unstructured.Unstructured, error) { return nil, errNoCluster }

func buildNoKustomization(string) ([]byte, error) {
	return nil, errors.New("a web page builds no kustomization: give what 'kubectl kustomize' prints with -f")
}
