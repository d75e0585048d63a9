package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// Established waits a minute until definitions have the condition Established: the API server accepts objects of a custom resource only then. Without names it
// waits for all definitions. 'kubectl wait' is no help: it fails on a definition that is so new that its status has no conditions.
func Established(ctx context.Context, kubeconfig string, names ...string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		list, err := resource.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		lacking := unestablished(list.Items, names)
		if len(lacking) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("definitions %s are not established: %w", strings.Join(lacking, ", "), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// unestablished returns which of these names, or of all definitions, are not established. Names of definitions that do not exist are among them.
func unestablished(definitions []unstructured.Unstructured, names []string) (lacking []string) {
	has := map[string]bool{}
	for _, definition := range definitions {
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		has[definition.GetName()] = slices.ContainsFunc(conditions, func(condition any) bool {
			of, _ := condition.(map[string]any)
			return of["type"] == "Established" && of["status"] == "True"
		})
		if len(names) == 0 && !has[definition.GetName()] {
			lacking = append(lacking, definition.GetName())
		}
	}
	for _, name := range names {
		if !has[name] {
			lacking = append(lacking, name)
		}
	}
	return lacking
}
