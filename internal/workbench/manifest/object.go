package manifest

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is an object that the user named, or the Fault why it could not be read.
type Object struct {
	*unstructured.Unstructured
	source
	// item is the index of the object in the document's list; empty if the document is not a list.
	item string
	// built reports that a kustomization made the object.
	built bool
	// Stored reports that the object was read from a cluster.
	Stored bool
	// Mistakes are the errors for which an API server refuses the object before it calls a webhook, and Warnings are its warnings.
	Mistakes field.ErrorList
	Warnings []string
	// Fault is why the object can be neither accepted nor rejected. Then the object may be empty.
	Fault error
}

// Stored wraps an object that was read from a cluster.
func Stored(object *unstructured.Unstructured) Object {
	return Object{Unstructured: object, Stored: true}
}

// Inline returns the object that a field of o contains as JSON. Its lines are counted from the beginning of the field.
func (o Object) Inline(raw []byte) Object {
	return source{file: o.file, text: raw, line: 1, json: true, Places: o.Places}.decodeObjects()[0]
}

// Name returns the kind, namespace and name of the object for messages. A name that is to be generated ends with '*'.
func (o Object) Name() string {
	name := o.GetName()
	if name == "" && o.GetGenerateName() != "" {
		name = o.GetGenerateName() + "*"
	}
	if namespace := o.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(o.GetKind() + " " + name)
}

// NameOrFile returns Name, or File for an object that cannot be read and has no name.
func (o Object) NameOrFile() string {
	if name := o.Name(); name != "" {
		return name
	}
	return o.file
}

// File returns the file that the object was read from, or the directory of the kustomization that made it; empty for an object of a cluster.
func (o Object) File() string { return o.file }
