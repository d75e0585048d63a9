package domainimport

import (
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Answer is an import as one document.
type Answer struct {
	Report Report `json:"report"`
	// Objects are the claims to fill, the VM and its GuestHardware, in the order in which they are created.
	Objects []map[string]any `json:"objects"`
	// Written are the objects after they were created in a cluster.
	Written []Written `json:"written,omitempty"`
	// Conflicts are why nothing was written.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Answer returns the import as one document.
func (i *Import) Answer() (Answer, error) {
	objects, err := i.Objects()
	answer := Answer{Report: i.Report}
	for _, object := range objects {
		answer.Objects = append(answer.Objects, object.Object)
	}
	return answer, err
}

// Objects returns the claims, the GuestHardware and the VM, in the order in which they are created: the VM would record other hardware if it started first.
func (i *Import) Objects() (objects []*unstructured.Unstructured, err error) {
	var typed []client.Object
	for _, claim := range i.Claims {
		typed = append(typed, claim)
	}
	if i.Hardware != nil {
		typed = append(typed, i.Hardware)
	}
	for _, object := range typed {
		one, err := manifest.OfTyped(object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, one)
	}
	if i.VM != nil {
		objects = append(objects, i.VM)
	}
	return objects, nil
}
