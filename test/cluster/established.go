package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
)

// Established waits a minute until definitions have the condition Established: the API server accepts objects of a custom resource only then. Without names it
// waits for all definitions. 'kubectl wait' is no help: it fails on a definition that is so new that its status has no conditions.
func Established(ctx context.Context, kubeconfig string, names ...string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	var lacking []string
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		lacking = unestablished(list.Items, names)
		return len(lacking) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until definitions are established, lacking %s: %w", strings.Join(lacking, ", "), err)
	}
	return nil
}

// unestablished returns which of these names, or of all definitions, are not established. Names of definitions that do not exist are among them.
func unestablished(definitions []apiextensions.CustomResourceDefinition, names []string) (lacking []string) {
	is := map[string]bool{}
	for i := range definitions {
		name := definitions[i].Name
		is[name] = apihelpers.IsCRDConditionTrue(&definitions[i], apiextensions.Established)
		if len(names) == 0 && !is[name] {
			lacking = append(lacking, name)
		}
	}
	return append(lacking, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return is[name] })...)
}
