package workbench

import (
	"errors"
	"sync"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/instancetype/v1beta1"
	snapshot "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Inputs are the objects that the user named, and where to find what they refer to.
type Inputs struct {
	Named  []Object
	Reader client.Reader
	// OfCluster reports that Reader reads a cluster, whose settings are the same for all objects. Files may hold several.
	OfCluster bool
}

// Over returns inputs whose objects may also refer to the objects that before was reviewed with. Where both have an object of one name, that of
// the inputs is used.
func (in Inputs) Over(before Reviewed) Inputs {
	in.Reader = objects.Layers{in.Reader, before.inputs.Reader}
	return in
}

// Scheme returns the Go types of all kinds that are read: Kubernetes', KubeVirt's and Kiln's. It is made once, because a command asks for it several times.
// Callers only read it.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme,
		snapshot.AddToScheme, clone.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// Load reads files, and judges each named object by the schema of its kind. A file or document that cannot be read becomes an object with a
// Fault. Objects of the catalog are not judged. It fails when a name does not exist.
func Load(files Files) (Inputs, error) {
	known, err := Scheme()
	if err != nil {
		return Inputs{}, err
	}
	named, err := files.read(files.Names)
	if err != nil {
		return Inputs{}, err
	}
	named = append(named, files.build()...)
	catalog, err := files.read(files.Catalog)
	if err != nil {
		return Inputs{}, err
	}
	var in Inputs
	var all []*unstructured.Unstructured
	checked := schemas{}
	for _, one := range catalog {
		switch {
		case one.Fault == nil:
			if err := checked.convert(known, &one); err != nil {
				return Inputs{}, err
			}
			all = append(all, one.Unstructured)
		case !errors.Is(one.Fault, errKustomization): // published catalogs have them in each directory
			in.Named = append(in.Named, one)
		}
	}
	for _, one := range named {
		if one.Fault == nil {
			if err := checked.judge(known, &one); err != nil {
				return Inputs{}, err
			}
			all = append(all, one.Unstructured)
		}
		in.Named = append(in.Named, one)
	}
	in.Reader = objects.New(known, withNameLabels(all)...)
	return in, nil
}
