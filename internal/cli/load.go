package cli

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/resolve"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inputs are the guests that the user named, and where to find what they refer to.
type inputs struct {
	guests []*unstructured.Unstructured
	reader client.Reader
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// load reads files if any are named, else the cluster.
func (o *options) load(_ context.Context, args []string) (inputs, error) {
	known, err := scheme()
	if err != nil {
		return inputs{}, err
	}
	switch {
	case len(o.files) > 0 && len(args) > 0:
		return inputs{}, fmt.Errorf("give either -f or names, not both")
	case len(o.files) > 0:
		return o.fromFiles(known)
	case len(args) > 0:
		return o.fromCluster(known, args)
	}
	return inputs{}, fmt.Errorf("name a file with -f, or a VM of the cluster as vm/NAME")
}

func (o *options) fromFiles(known *runtime.Scheme) (inputs, error) {
	named, err := o.read(o.files)
	if err != nil {
		return inputs{}, err
	}
	all := named
	if o.catalog != "" {
		catalog, err := o.read([]string{o.catalog})
		if err != nil {
			return inputs{}, err
		}
		all = append(catalog, named...)
	}
	return inputs{guests: named, reader: resolve.NewFiles(known, all...)}, nil
}

// read decodes every object below the given files. Namespaced ones without a namespace get that of the command line.
func (o *options) read(files []string) ([]*unstructured.Unstructured, error) {
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil || namespace == "" {
		namespace = "default"
	}
	infos, err := resource.NewLocalBuilder().Unstructured().
		FilenameParam(false, &resource.FilenameOptions{Filenames: files, Recursive: true}).
		Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(infos))
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if object.GetNamespace() == "" && !clusterKinds[object.GetKind()] {
			object.SetNamespace(namespace)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// clusterKinds are the kinds of the catalog that have no namespace.
var clusterKinds = map[string]bool{"VirtualMachineClusterInstancetype": true, "VirtualMachineClusterPreference": true}

func (o *options) fromCluster(known *runtime.Scheme, args []string) (inputs, error) {
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return inputs{}, err
	}
	infos, err := resource.NewBuilder(o.cluster).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, args...).Flatten().Do().Infos()
	if err != nil {
		return inputs{}, err
	}
	config, err := o.cluster.ToRESTConfig()
	if err != nil {
		return inputs{}, err
	}
	reader, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return inputs{}, err
	}
	found := inputs{reader: reader}
	for _, info := range infos {
		if object, ok := info.Object.(*unstructured.Unstructured); ok {
			found.guests = append(found.guests, object)
		}
	}
	return found, nil
}
