package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/resource"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inputs are the objects that the user named, and where to find what they refer to.
type inputs struct {
	named  []object
	reader client.Reader
	// cluster is where they came from; nil with files.
	cluster client.Client
	texts   texts
}

// object is one that the user named.
type object struct {
	*unstructured.Unstructured
	// file it was read from; empty when it came from a cluster.
	file string
	// mistakes are what an API server would refuse before it asks a webhook.
	mistakes field.ErrorList
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme} {
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
		return o.fromCluster(args)
	}
	return inputs{}, fmt.Errorf("name a file with -f, or a VM of the cluster as vm/NAME")
}

func (o *options) fromFiles(known *runtime.Scheme) (inputs, error) {
	in := inputs{texts: texts{}}
	var err error
	if in.named, err = o.read(o.files, in.texts); err != nil {
		return inputs{}, err
	}
	var all []*unstructured.Unstructured
	if o.catalog != "" {
		catalog, err := o.read([]string{o.catalog}, in.texts)
		if err != nil {
			return inputs{}, err
		}
		for _, c := range catalog {
			all = append(all, c.Unstructured)
		}
	}
	checked := schemas{}
	for i := range in.named {
		if in.named[i].mistakes, err = checked.check(known, in.named[i].Unstructured); err != nil {
			return inputs{}, err
		}
		all = append(all, in.named[i].Unstructured)
	}
	in.reader = resolve.NewFiles(known, all...)
	return in, nil
}

// stdin is how objects of the standard input are told of.
const stdin = "standard input"

// read decodes every object below the given files. Namespaced ones without a namespace get that of the command line.
func (o *options) read(files []string, seen texts) ([]object, error) {
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil || namespace == "" {
		namespace = "default"
	}
	builder := resource.NewLocalBuilder().Unstructured()
	for _, file := range files {
		if file != "-" {
			builder.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}, Recursive: true})
			continue
		}
		raw, err := io.ReadAll(o.In)
		if err != nil {
			return nil, err
		}
		seen[stdin] = raw
		builder.Stream(bytes.NewReader(raw), stdin)
	}
	infos, err := builder.Flatten().Do().Infos()
	if err != nil {
		return nil, seen.locate(err)
	}
	objects := make([]object, 0, len(infos))
	for _, info := range infos {
		untyped, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if untyped.GetNamespace() == "" && !clusterKinds[untyped.GetKind()] {
			untyped.SetNamespace(namespace)
		}
		objects = append(objects, object{Unstructured: untyped, file: info.Source})
	}
	return objects, nil
}

// clusterKinds are the kinds of the catalog that have no namespace.
var clusterKinds = map[string]bool{"VirtualMachineClusterInstancetype": true, "VirtualMachineClusterPreference": true, "HostProfile": true}

func (o *options) fromCluster(args []string) (inputs, error) {
	namespace, _, err := o.cluster.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return inputs{}, err
	}
	infos, err := resource.NewBuilder(o.cluster).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, args...).Flatten().Do().Infos()
	if err != nil {
		return inputs{}, err
	}
	reader, err := o.client()
	if err != nil {
		return inputs{}, err
	}
	found := inputs{reader: reader, cluster: reader}
	for _, info := range infos {
		if untyped, ok := info.Object.(*unstructured.Unstructured); ok {
			found.named = append(found.named, object{Unstructured: untyped})
		}
	}
	return found, nil
}
