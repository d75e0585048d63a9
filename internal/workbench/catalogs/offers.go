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

// Offer is an instancetype or a preference that a VM may use.
type Offer struct {
	catalog.Entry
	// Fits reports whether the instancetype meets the requirements of the preference; nil if Wish.For is empty.
	Fits *bool `json:"fits,omitempty"`
	// Misses is the reason why it does not fit.
	Misses string `json:"misses,omitempty"`
	// Refused is the reason why the runtime of Wish.Refused starts no guest with the object; empty if it starts guests.
	Refused string `json:"refused,omitempty"`
}

// Flag returns the value of --instancetype or --preference that names the object.
func (o Offer) Flag() string {
	if o.Namespace == "" {
		return o.Name
	}
	return strings.ToLower(o.Kind) + "/" + o.Name
}

// Wish selects offers. The zero value selects all objects that new VMs may use.
type Wish struct {
	// Kinds are the kinds of instancetypes or the kinds of preferences.
	Kinds instancetype.KindNames
	// For is the preference that instancetypes must fit, or the instancetype for preferences, in the format of Offer.Flag. It may be empty.
	For string
	// CPUs, Memory and GPUs are the least that an instancetype must have.
	CPUs   uint32
	Memory resource.Quantity
	GPUs   int
	Labels labels.Selector
	// All adds obsolete objects and objects that do not fit.
	All bool
	// Refused are the reasons of RefusedByRuntime.
	Refused map[catalog.Key]string
}

// Choose returns the offers that meet a wish, with the lifecycles at the time now. Preferences are sorted by name. Instancetypes are sorted by class and
// size, and those that need special nodes come last. It fails if Wish.For does not exist.
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
		offer := Offer{Entry: object.Entry(now), Refused: w.Refused[object.Key()]}
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

// satisfiedBy reports whether an instancetype has the CPUs, memory and GPUs of the wish. It must be used with the zero values for preferences, whose CPUs
// and memory are requirements.
func (w Wish) satisfiedBy(o Offer) bool {
	return o.CPUs >= w.CPUs && o.GPUs >= w.GPUs && o.Bytes >= w.Memory.Value()
}

// classLabel has the series of an instancetype. The published format of catalogs includes it.
const classLabel = "instancetype.kubevirt.io/class"

// Class returns the series of an instancetype; empty if it has none.
func (o Offer) Class() string { return o.Labels[classLabel] }

// orderOffers compares two offers. Preferences are ordered by name. Instancetypes are ordered by class, size and name, and those that need a special node
// come last.
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

// findNamed returns the instancetype or preference that a flag names. Without a kind the object is cluster-wide, as in a VM.
func (c Catalog) findNamed(family instancetype.KindNames, flag string) (*catalog.Object, error) {
	word, name, given := strings.Cut(flag, "/")
	if !given {
		word, name = "", flag
	}
	kind := family.Canonical(word)
	if kind == "" {
		return nil, fmt.Errorf("'%s' is not a kind: use '%s' or '%s'", word, strings.ToLower(family.Cluster), strings.ToLower(family.Namespaced))
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

// whyUnfit returns the reason why a VM cannot use an instancetype with a preference.
func whyUnfit(a, b *catalog.Object) string {
	return cmp.Or(instancetype.Shortfall(catalog.Pair(a, b)), "is of another namespace")
}
