package manifest

import (
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Inputs has the objects that the user named, and a reader of the objects to which they refer.
type Inputs struct {
	Named  []Object
	Reader client.Reader
	// OfCluster reports that Reader reads a cluster. A cluster has the same settings for all objects; files may have several settings.
	OfCluster bool
}

// Load reads files, and checks each named object against the schema of its kind, but not objects of the catalog. A file or document that cannot be read
// becomes an object with a Fault. Load fails if a name does not exist.
func Load(files Files) (Inputs, error) {
	named, err := files.ReadNames(files.Names)
	if err != nil {
		return Inputs{}, err
	}
	named = append(named, files.buildKustomizations()...)
	catalog, err := files.ReadNames(files.Catalog)
	if err != nil {
		return Inputs{}, err
	}
	var in Inputs
	var all []*unstructured.Unstructured
	for _, one := range catalog {
		switch {
		case one.Fault == nil:
			if err := one.ConvertVersion(); err != nil {
				return Inputs{}, err
			}
			all = append(all, one.Unstructured)
		case !errors.Is(one.Fault, ErrKustomization): // published catalogs have a kustomization in each directory
			in.Named = append(in.Named, one)
		}
	}
	for _, one := range named {
		if one.Fault == nil {
			if err := one.CheckSchema(); err != nil {
				return Inputs{}, err
			}
			all = append(all, one.Unstructured)
		}
		in.Named = append(in.Named, one)
	}
	known, err := crdschema.Scheme()
	if err != nil {
		return Inputs{}, err
	}
	in.Reader = objects.New(known, AddNamespaceLabels(all)...)
	return in, nil
}

// CheckSchema checks an object of a file against the schema of its kind, sets Mistakes and Warnings, and converts it to the version that the webhook gets.
func (o *Object) CheckSchema() error {
	found, err := crdschema.Check(o.Unstructured)
	if err != nil {
		return err
	}
	o.Mistakes = found.Mistakes
	for _, path := range found.EmptyKeys {
		o.Warnings = append(o.Warnings, path+" has no value: a create drops the key, and 'kubectl apply --server-side' refuses it; remove it")
	}
	return o.ConvertVersion()
}

// WarnOfNewerFields adds a warning about fields of a stored object that this program does not know.
func (o *Object) WarnOfNewerFields() error {
	unknown, err := crdschema.UnknownFields(o.Unstructured)
	if len(unknown) > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the cluster's API is newer than this program, which neither judges nor compares %d of its fields, such as "+
			"'%.100s'", len(unknown), unknown[0]))
	}
	return err
}

// ConvertVersion converts an object to the version that the webhook gets, and adds the warning about a deprecated version.
func (o *Object) ConvertVersion() error {
	deprecation, err := crdschema.Convert(o.Unstructured)
	if deprecation != "" {
		o.Warnings = append(o.Warnings, deprecation)
	}
	return err
}
