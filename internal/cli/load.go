package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
}

// object is one that the user named, or the reason why there is none.
type object struct {
	*unstructured.Unstructured
	source
	// item is its index in the list that the document is; empty when it is none.
	item string
	// built tells that a kustomization made it.
	built bool
	// stored tells that it was read from a cluster.
	stored bool
	// mistakes are what an API server would refuse before it asks a webhook, and warnings what it would warn of.
	mistakes field.ErrorList
	warnings []string
	// fault is why there is no answer for it: neither yes nor no. The object may be empty then.
	fault error
}

// name is how the object is told of.
func (o object) name() string {
	name := o.GetName()
	if name == "" && o.GetGenerateName() != "" {
		name = o.GetGenerateName() + "*"
	}
	if namespace := o.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(o.GetKind() + " " + name)
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
	case len(o.files)+len(o.kustomizations) > 0 && len(args) > 0:
		return inputs{}, fmt.Errorf("give either files with -f and -k, or names, not both")
	case len(o.files)+len(o.kustomizations) > 0:
		return o.fromFiles(known)
	case len(args) > 0:
		return o.fromCluster(args)
	}
	return inputs{}, fmt.Errorf("name a file with -f, or a VM of the cluster as vm/NAME")
}

func (o *options) fromFiles(known *runtime.Scheme) (inputs, error) {
	named, err := o.read(o.files)
	if err != nil {
		return inputs{}, err
	}
	named = append(named, o.build(o.kustomizations)...)
	catalog, err := o.read(o.catalog)
	if err != nil {
		return inputs{}, err
	}
	var in inputs
	var all []*unstructured.Unstructured
	checked := schemas{}
	for _, one := range catalog {
		switch {
		case one.fault == nil:
			if err := checked.convert(known, &one); err != nil {
				return inputs{}, err
			}
			all = append(all, one.Unstructured)
		case !errors.Is(one.fault, errKustomization): // published catalogs have them in each directory
			in.named = append(in.named, one)
		}
	}
	for _, one := range named {
		if one.fault == nil {
			if err := checked.judge(known, &one); err != nil {
				return inputs{}, err
			}
			all = append(all, one.Unstructured)
		}
		in.named = append(in.named, one)
	}
	in.reader = objects.New(known, all...)
	return in, nil
}
