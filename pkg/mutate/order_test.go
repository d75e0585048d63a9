package mutate

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

const (
	// orders is how many orders of the passes are tried, each on neighbours guests and on a share of the corpus.
	orders     = 200
	neighbours = 40
	// grafts is how many subtrees of other guests a neighbour gets at most. Many are taken: the point is what passes meet together.
	grafts = 12
)

// TestOrderIsComplete runs the passes in random orders that 'order' allows. Each gives the guest that the stated list gives:
// a pair that 'order' lacks shows as another guest, or as a panic. SEED repeats a run.
func TestOrderIsComplete(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("SEED=%d", seed)
	g := guests{rand.New(rand.NewPCG(seed, 0)), corpusSpecs(t)}
	clusters := differentClusters()
	for range orders {
		shuffled := g.order(order)
		given := []map[string]any{g.specs[g.IntN(len(g.specs))], g.specs[g.IntN(len(g.specs))]}
		for range neighbours {
			given = append(given, g.neighbour())
		}
		for _, spec := range given {
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal(marshaled(t, spec), &vmi.Spec); err != nil {
				continue // the API server's schema refuses it
			}
			if sameGuest(t, vmi, clusters[g.IntN(len(clusters))], shuffled); t.Failed() {
				t.Fatalf("of %s", marshaled(t, spec))
			}
		}
	}
}

// TestEachPairMatters leaves out one pair after the other: some order that the others allow gives some guest of the corpus
// another form. So no pair is idle, and the guests are ones that tell orders apart.
func TestEachPairMatters(t *testing.T) {
	t.Parallel()
	g := guests{rand.New(rand.NewPCG(2, 0)), corpusSpecs(t)}
	for i, pair := range order {
		others := slices.Delete(slices.Clone(order), i, i+1)
		if !g.tellsApart(t, others) {
			t.Errorf("without '%s' before '%s' every order gives the same guests: the pair says nothing", pair.first, pair.second)
		}
	}
}

// tellsApart reports whether two orders that pairs allow make different guests of the corpus's specs.
func (g guests) tellsApart(t *testing.T, pairs []before) bool {
	t.Helper()
	clusters, stated := differentClusters(), slices.Sorted(slices.Values(g.Perm(len(passes))))
	for range orders {
		shuffled := g.order(pairs)
		for range neighbours {
			vmi := &v1.VirtualMachineInstance{}
			if err := json.Unmarshal(marshaled(t, g.neighbour()), &vmi.Spec); err != nil {
				continue
			}
			d := clusters[g.IntN(len(clusters))]
			want, _ := applied(vmi, d, stated)
			if got, _ := applied(vmi, d, shuffled); !cmp.Equal(want, got) {
				return true
			}
		}
	}
	return false
}

// sameGuest goes from the stated order to the shuffled one by exchanging neighbouring passes, and names the first two that
// may not be exchanged.
func sameGuest(t *testing.T, vmi *v1.VirtualMachineInstance, d config.Defaults, shuffled []int) {
	t.Helper()
	stated := slices.Sorted(slices.Values(shuffled))
	want, _ := applied(vmi, d, stated)
	if got, _ := applied(vmi, d, shuffled); cmp.Equal(want, got) {
		return
	}
	at := slices.Clone(stated)
	for i, next := range shuffled {
		for j := slices.Index(at, next); j > i; j-- {
			at[j-1], at[j] = at[j], at[j-1]
			if got, panicked := applied(vmi, d, at); !cmp.Equal(want, got) {
				t.Errorf("'%s' must run before '%s', and 'order' does not say so: %v\n%s",
					passes[at[j]].Name, passes[at[j-1]].Name, panicked, cmp.Diff(want, got))
				return
			}
		}
	}
}

// applied runs the passes in an order; nil and what recover says where one panics.
func applied(vmi *v1.VirtualMachineInstance, d config.Defaults, order []int) (out *v1.VirtualMachineInstance, panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			out = nil
		}
	}()
	out = vmi.DeepCopy()
	for _, i := range order {
		passes[i].Run(out, d)
	}
	return out, nil
}

// TestAttachInAnyOrder: Attach's three have no order among them.
func TestAttachInAnyOrder(t *testing.T) {
	t.Parallel()
	g := guests{rand.New(rand.NewPCG(1, 0)), corpusSpecs(t)}
	for _, spec := range g.specs {
		vmi := &v1.VirtualMachineInstance{}
		if err := json.Unmarshal(marshaled(t, spec), &vmi.Spec); err != nil {
			t.Fatal(err)
		}
		attached, explicit := vmi.DeepCopy(), vmi.DeepCopy()
		for _, i := range g.Perm(len(attachPasses)) {
			attachPasses[i](attached, config.Default().Defaults)
		}
		Attach(explicit, config.Default().Defaults)
		if diff := cmp.Diff(explicit, attached); diff != "" {
			t.Fatalf("another order attaches other devices (-stated +shuffled):\n%s", diff)
		}
		Apply(vmi, config.Default().Defaults)
		Apply(attached, config.Default().Defaults)
		if diff := cmp.Diff(vmi, attached); diff != "" {
			t.Fatalf("after Attach, Apply gives another guest (-alone +after):\n%s", diff)
		}
	}
}
