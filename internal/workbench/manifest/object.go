package manifest

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is one that the user named, or the reason why there is none.
type Object struct {
	*unstructured.Unstructured
	source
	// item is its index in the list that the document is; empty when it is none.
	item string
	// built reports that a kustomization made it.
	built bool
	// Stored reports that it was read from a cluster.
	Stored bool
	// Mistakes are what an API server would refuse before it asks a webhook, and warnings what it would warn of.
	Mistakes field.ErrorList
	Warnings []string
	// Fault is why the object can be neither accepted nor rejected. The object may be empty then.
	Fault error
}

// Stored returns an object that was read from a cluster.
func Stored(object *unstructured.Unstructured) Object {
	return Object{Unstructured: object, Stored: true}
}

// Inline returns the object that another one holds as JSON. Lines are counted from its beginning.
func (o Object) Inline(raw []byte) Object {
	return source{file: o.file, text: raw, line: 1, json: true, Places: o.Places}.objects()[0]
}

// Name returns kind, namespace and name, as messages call the object. The name of one to be generated ends with '*'.
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

// File returns the file that the object was read from, or the directory of the kustomization that made it; empty for one of a cluster.
func (o Object) File() string { return o.file }
