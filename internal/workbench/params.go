package workbench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is what the CustomResourceDefinition of a paramKind says.
type definition struct {
	// clusterWide means that objects of the kind have no namespace.
	clusterWide bool
	schema      *spec.Schema
}

// definitionOf returns what the CustomResourceDefinition of a paramKind says, if it is among the objects of the files. The kind has a namespace and no schema
// if there is no definition. In a cluster the API server knows the kind, and policies were compiled when they were written.
func definitionOf(ctx context.Context, in manifest.Inputs, kind v1alpha1.GuestPolicyParamKind) (definition, error) {
	if in.OfCluster || in.Reader == nil {
		return definition{}, nil
	}
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := in.Reader.List(ctx, &all); err != nil {
		return definition{}, err
	}
	of := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	for _, crd := range all.Items {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		named, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if group != of.Group || named != of.Kind {
			continue
		}
		scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
		found := definition{clusterWide: scope == "Cluster"}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, version := range versions {
			content, _ := version.(map[string]any)
			if content["name"] != of.Version {
				continue
			}
			written, _, _ := unstructured.NestedMap(content, "schema", "openAPIV3Schema")
			raw, err := json.Marshal(written)
			if err == nil && written != nil {
				found.schema = &spec.Schema{}
				err = json.Unmarshal(raw, found.schema)
			}
			if err != nil {
				return definition{}, fmt.Errorf("CustomResourceDefinition '%s': %w", crd.GetName(), err)
			}
		}
		return found, nil
	}
	return definition{}, nil
}

// paramsOf returns the source of the params among the objects of inputs.
func paramsOf(in manifest.Inputs) func(context.Context) policy.ParamSource {
	return func(ctx context.Context) policy.ParamSource {
		return func(kind v1alpha1.GuestPolicyParamKind, ref v1alpha1.GuestPolicyParamRef, namespace string) ([]*unstructured.Unstructured, error) {
			defined, err := definitionOf(ctx, in, kind)
			if err != nil {
				return nil, err
			}
			if ref.Namespace != "" {
				namespace = ref.Namespace
			}
			options := []client.ListOption{client.InNamespace(namespace)}
			if defined.clusterWide { // files of such kinds have the namespace that the reader of files gave them
				if ref.Namespace != "" {
					return nil, fmt.Errorf("kind %s has no namespaces: remove spec.paramRef.namespace", kind.Kind)
				}
				options = nil
			}
			if ref.Selector != nil {
				selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
				if err != nil {
					return nil, err
				}
				options = append(options, client.MatchingLabelsSelector{Selector: selector})
			}
			return readParams(ctx, in.Reader, kind, ref.Name, options, namespace, in.OfCluster)
		}
	}
}

// readParams reads the params of a name, or those that the options select.
func readParams(ctx context.Context, reader client.Reader, kind v1alpha1.GuestPolicyParamKind, name string, options []client.ListOption, namespace string,
	ofCluster bool,
) ([]*unstructured.Unstructured, error) {
	of := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	if name != "" && ofCluster { // the client leaves the namespace out if the kind has none
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(of)
		switch err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, unreadableParams(kind, err)
		}
		return []*unstructured.Unstructured{found}, nil
	}
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
	if err := reader.List(ctx, &all, options...); err != nil {
		return nil, unreadableParams(kind, err)
	}
	var found []*unstructured.Unstructured
	for i := range all.Items {
		if name == "" || all.Items[i].GetName() == name {
			found = append(found, &all.Items[i])
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found, nil
}

// unreadableParams returns the error of params that cannot be read.
func unreadableParams(kind v1alpha1.GuestPolicyParamKind, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster does not serve kind %s of %s: install its CustomResourceDefinition, or correct spec.paramKind", kind.Kind, kind.APIVersion)
	}
	return fmt.Errorf("reading the params: %w", err)
}
