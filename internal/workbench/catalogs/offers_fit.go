package catalogs

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/workbench/crdschema"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Nearest returns the instancetype that meets a wish and has the least beyond it. It prefers, in this order: the fewest GPUs and host devices, an active one
// before a deprecated one, the fewest features, such as dedicated CPUs and huge pages, because each excludes nodes, and the least CPUs and memory.
func (c Catalog) Nearest(w Wish, now time.Time) (Offer, error) {
	offers, err := c.Choose(w, now)
	switch {
	case err != nil:
		return Offer{}, err
	case len(offers) == 0:
		return Offer{}, errors.New("no instancetype of the catalog has as much; 'kubectl kiln instancetypes' lists them")
	}
	return NearestOf(w, offers), nil
}

// NearestOf returns the offer that Nearest chooses among offers that meet the wish. There must be at least one.
func NearestOf(w Wish, offers []Offer) Offer {
	return slices.MinFunc(offers, func(a, b Offer) int {
		return cmp.Or(
			cmp.Compare(a.GPUs+a.HostDevices, b.GPUs+b.HostDevices), cmp.Compare(lifecycleRank(a), lifecycleRank(b)), cmp.Compare(len(a.Features), len(b.Features)),
			cmp.Compare(w.relativeSize(a), w.relativeSize(b)), orderOffers(a, b))
	})
}

// lifecycleRank returns 0 for active offers and 1 for all others.
func lifecycleRank(o Offer) int {
	if o.Lifecycle == v1alpha1.LifecycleActive {
		return 0
	}
	return 1
}

// relativeSize returns how large an instancetype is relative to the wish: the ratio of CPUs plus the ratio of memory. A wish counts as at least one CPU and
// 1Gi.
func (w Wish) relativeSize(o Offer) float64 {
	const gibi = 1 << 30
	cpus, memory := max(float64(w.CPUs), 1), max(w.Memory.AsApproximateFloat64(), gibi)
	return float64(o.CPUs)/cpus + float64(o.Bytes)/memory
}

// ReviewInputs returns the inputs of a review of one new object. The objects of the catalog are among them, so that the new object may refer to them.
func (c Catalog) ReviewInputs(object *unstructured.Unstructured) (manifest.Inputs, error) {
	known, err := crdschema.Scheme()
	if err != nil {
		return manifest.Inputs{}, err
	}
	all := []*unstructured.Unstructured{}
	for _, origin := range c.Origins {
		all = append(all, origin.Unstructured)
	}
	one := manifest.Object{Unstructured: object}
	if err := one.CheckSchema(); err != nil {
		return manifest.Inputs{}, err
	}
	return manifest.Inputs{Named: []manifest.Object{one}, Reader: objects.New(known, all...)}, nil
}
