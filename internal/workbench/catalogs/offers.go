package catalogs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/catalog"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Offer is an instancetype or a preference that a VM may name.
type Offer struct {
	catalog.Entry
	// Fits is the engine's verdict on the requirements of the preference; nil if nothing was named that it is to fit.
	Fits *bool `json:"fits,omitempty"`
	// Misses says why it does not fit.
	Misses string `json:"misses,omitempty"`
}

// Flag returns what names the object in --instancetype and --preference.
func (o Offer) Flag() string {
	if o.Namespace == "" {
		return o.Name
	}
	return strings.ToLower(o.Kind) + "/" + o.Name
}

// Wish is what is asked of an offer. The zero value takes all that new VMs may use.
type Wish struct {
	// Kinds are those of instancetypes or those of preferences.
	Kinds instancetype.KindNames
	// For names an object of the other family, as Offer.Flag does; empty for none.
	For string
	// CPUs, Memory and GPUs are what an instancetype has at least.
	CPUs   uint32
	Memory resource.Quantity
	GPUs   int
	Labels labels.Selector
	// All adds what is obsolete and what does not fit.
	All bool
}

// Choose returns the offers that meet a wish at a time: instancetypes that every node can run first, then by class and size, preferences by name. An error is
// a name that leads nowhere.
func (c Catalog) Choose(w Wish, now time.Time) (offers []Offer, err error) {
	var partner *catalog.Object
	if w.For != "" {
		if partner, err = c.findNamed(w.Kinds.Other(), w.For); err != nil {
			return nil, err
		}
	}
	for _, object := range c.Objects {
		if !slices.Contains(w.Kinds.Both(), object.Kind) || w.Labels != nil && !w.Labels.Matches(labels.Set(object.Labels)) {
			continue
		}
		offer := Offer{Entry: object.Entry(now)}
		if !w.satisfiedBy(offer) || offer.Lifecycle == v1alpha1.LifecycleObsolete && !w.All {
			continue
		}
		if partner != nil {
			fits := catalog.Meets(object, partner)
			if offer.Fits = &fits; !fits {
				offer.Misses = whyUnfit(object, partner)
			}
		}
		if offer.Fits == nil || *offer.Fits || w.All {
			offers = append(offers, offer)
		}
	}
	slices.SortFunc(offers, func(a, b Offer) int { return orderOffers(a, b) })
	return offers, nil
}

// satisfiedBy reports whether an instancetype has the CPUs, memory and GPUs that are asked for. The figures of a preference are requirements, and always
// satisfy.
func (w Wish) satisfiedBy(o Offer) bool {
	return o.CPUs >= w.CPUs && o.GPUs >= w.GPUs && o.Bytes >= w.Memory.Value()
}

// classLabel is the series of an instancetype. It is part of the published catalog's contract.
const classLabel = "instancetype.kubevirt.io/class"

// Class returns the series of an instancetype; empty if it has none.
func (o Offer) Class() string { return o.Labels[classLabel] }

// orderOffers orders preferences by name. Instancetypes that need a special node come last; otherwise class and size decide before the name.
func orderOffers(a, b Offer) int {
	if !slices.Contains(instancetype.Kinds.Both(), a.Kind) {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Flag(), b.Flag()))
	}
	if a.NeedsSpecialNode != b.NeedsSpecialNode {
		if a.NeedsSpecialNode {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Class(), b.Class()), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Flag(), b.Flag()))
}

// findNamed returns the object of a family that a flag names. Without a kind it is that of the cluster, as in a VM.
func (c Catalog) findNamed(family instancetype.KindNames, flag string) (*catalog.Object, error) {
	word, name, given := strings.Cut(flag, "/")
	if !given {
		word, name = "", flag
	}
	kind := family.Canonical(word)
	if kind == "" {
		return nil, fmt.Errorf("'%s' is no kind: use '%s' or '%s'", word, strings.ToLower(family.Cluster), strings.ToLower(family.Namespaced))
	}
	var names []string
	other := ""
	for _, object := range c.Objects {
		switch {
		case object.Kind == kind && object.Name == name:
			return object, nil
		case object.Kind == kind:
			names = append(names, object.Name)
		case slices.Contains(family.Both(), object.Kind) && object.Name == name:
			other = Offer{Entry: catalog.Entry{Key: object.Key()}}.Flag()
		}
	}
	text := fmt.Sprintf("%s '%s' does not exist", kind, name)
	if nearest := cmp.Or(other, nearest.Name(name, names)); nearest != "" {
		text += fmt.Sprintf("; did you mean '%s'?", nearest)
	}
	return nil, fmt.Errorf("%s", text)
}

// whyUnfit says why an instancetype and a preference may not be named together.
func whyUnfit(a, b *catalog.Object) string {
	return cmp.Or(instancetype.Shortfall(catalog.Pair(a, b)), "is of another namespace")
}
