// Package catalog judges a set of instancetypes and preferences as a whole: Lint finds mistakes, IndexOf lists the objects, and Compare finds what a change
// from one version to the next means for the VMs that take it. The package does not read files or clusters.
package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/kilnvm/kiln/pkg/shorten"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/api/instancetype/v1beta1"
)

// Object is an instancetype or a preference of a catalog.
type Object struct {
	// Kind is one of instancetype.CatalogKinds.
	Kind string
	// ObjectMeta has namespace, name, labels and annotations. Its other fields are not read.
	metav1.ObjectMeta
	// Either Instancetype or Preference is the object's spec; the other is nil.
	Instancetype *v1beta1.VirtualMachineInstancetypeSpec
	Preference   *v1beta1.VirtualMachinePreferenceSpec
}

// Key identifies an object in a catalog.
type Key struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Key returns the kind, the namespace and the name of the object.
func (o *Object) Key() Key { return Key{o.Kind, o.Namespace, o.Name} }

// String returns kind, namespace and name in the form of messages, such as 'VirtualMachineInstancetype shop/small'.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

func (k Key) compareKey(other Key) int {
	return cmp.Or(cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name))
}

// sharesNamespace reports whether one VM can name both objects: only VMs in its namespace can name a namespaced object.
func (o *Object) sharesNamespace(other *Object) bool {
	return o.Namespace == "" || other.Namespace == "" || o.Namespace == other.Namespace
}

// Pair returns the set of a VM that names an instancetype and a preference, in any order. Either may be nil.
func Pair(a, b *Object) (s instancetype.Set) {
	for _, o := range []*Object{a, b} {
		switch {
		case o == nil:
		case o.Instancetype != nil:
			s.Instancetype = &instancetype.Instancetype{Source: instancetype.Source{Kind: o.Kind, Name: o.Name}, Spec: *o.Instancetype}
		case o.Preference != nil:
			s.Preference = &instancetype.Preference{Source: instancetype.Source{Kind: o.Kind, Name: o.Name}, Spec: *o.Preference}
		}
	}
	return s
}

// joinSets returns the instancetype and the preference of two sets, of which one has the instancetype and the other the preference.
func joinSets(a, b instancetype.Set) instancetype.Set {
	return instancetype.Set{Instancetype: cmp.Or(a.Instancetype, b.Instancetype), Preference: cmp.Or(a.Preference, b.Preference)}
}

// leaf is a field of a spec that has no fields below it.
type leaf struct{ path, text string }

// specLeaves returns the leaves of an object's spec in the order of the API's types.
func (o *Object) specLeaves() (all []leaf) {
	var found []leaves.Leaf
	if o.Instancetype != nil {
		found = leaves.Append(nil, "spec", *o.Instancetype)
	} else if o.Preference != nil {
		found = leaves.Append(nil, "spec", *o.Preference)
	}
	for _, f := range found {
		all = append(all, leaf{f.Path, f.Text()})
	}
	return all
}

// specContent returns a text that is the same for two objects if and only if their specs mean the same: '1Gi' and '1024Mi' are one amount.
func (o *Object) specContent() string {
	copied := *o
	if o.Instancetype != nil {
		spec := o.Instancetype.DeepCopy()
		spec.Memory.Guest = plainAmount(spec.Memory.Guest)
		if spec.Memory.MaxGuest != nil {
			maximum := plainAmount(*spec.Memory.MaxGuest)
			spec.Memory.MaxGuest = &maximum
		}
		copied.Instancetype = spec
	}
	if p := o.Preference; p != nil && p.Requirements != nil && p.Requirements.Memory != nil {
		spec := p.DeepCopy()
		spec.Requirements.Memory.Guest = plainAmount(spec.Requirements.Memory.Guest)
		copied.Preference = spec
	}
	var text strings.Builder
	for _, f := range copied.specLeaves() {
		text.WriteString(f.path + "=" + f.text + "\n")
	}
	return text.String()
}

// plainAmount returns an amount in one form, whatever the form in which it was written.
func plainAmount(q resource.Quantity) resource.Quantity {
	return resource.MustParse(q.AsDec().String()) // a quantity's own digits are always a quantity
}

// splitByKind returns the instancetypes and the preferences among objects, each in the order of their keys.
func splitByKind(objects []*Object) (instancetypes, preferences []*Object) {
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b *Object) int { return a.Key().compareKey(b.Key()) })
	for _, o := range sorted {
		if o.Instancetype != nil {
			instancetypes = append(instancetypes, o)
		} else if o.Preference != nil {
			preferences = append(preferences, o)
		}
	}
	return instancetypes, preferences
}

// toolPrefixes are prefixes of keys that tools write into the objects of a catalog when they apply it: kubectl, KubeVirt's operator, Helm, Argo CD and Flux.
// Such keys are not part of the catalog.
var toolPrefixes = []string{"kubectl.kubernetes.io/", "app.kubernetes.io/", "kubevirt.io/", "helm.sh/", "meta.helm.sh/", "argocd.argoproj.io/",
	"kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"}

// longestValue is the number of bytes to which a difference cuts the value of a field.
const longestValue = 200

// describedLeaves returns the leaves of metadata and spec: labels and annotations in the order of their keys, and then the spec.
func (o *Object) describedLeaves() (all []leaf) {
	for _, part := range []struct {
		path func(string) string
		keys map[string]string
	}{{labelPath, o.Labels}, {annotationPath, o.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(part.keys)) {
			if !slices.ContainsFunc(toolPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
				all = append(all, leaf{part.path(key), strconv.Quote(part.keys[key])})
			}
		}
	}
	return append(all, o.specLeaves()...)
}

// shortValue cuts a value to longestValue bytes.
func shortValue(value string) string { return shorten.Bytes(value, longestValue) }
