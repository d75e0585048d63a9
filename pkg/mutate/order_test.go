package mutate

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
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
		for _, i := range g.Perm(len(attach)) {
			attach[i](attached, config.Default().Defaults)
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

// differentClusters are configurations by which passes do all that they can do.
func differentClusters() []config.Defaults {
	plain, rich := config.Default().Defaults, config.Default().Defaults
	evict, sockets := v1.EvictionStrategyLiveMigrate, uint32(8)
	rich.CPUModel, rich.CPURequest, rich.EvictionStrategy = "Haswell", quantity("2500m"), &evict
	rich.NetworkInterface, rich.EvenEmulatorThreads, rich.QuoteSocket = "masquerade", true, "/run/quote.socket"
	rich.LiveUpdate = &config.LiveUpdate{MaxCPUSockets: &sockets, MaxGuest: quantity("64Gi"), MaxHotplugRatio: 2}
	arm, mainframe, staged := rich, rich, plain
	arm.Architecture, mainframe.Architecture, staged.LiveUpdate = "arm64", "s390x", nil
	return []config.Defaults{plain, rich, arm, mainframe, staged}
}

// guests makes specs out of those of the corpus.
type guests struct {
	*rand.Rand
	specs []map[string]any
}

// order is a random one that pairs allow, as indices of passes.
func (g guests) order(pairs []before) (shuffled []int) {
	left := g.Perm(len(passes))
	for len(left) > 0 {
		free := slices.IndexFunc(left, func(i int) bool {
			return !slices.ContainsFunc(pairs, func(pair before) bool {
				return pair.second == passes[i].Name && slices.ContainsFunc(left, func(j int) bool { return passes[j].Name == pair.first })
			})
		})
		shuffled, left = append(shuffled, left[free]), slices.Delete(left, free, free+1)
	}
	return shuffled
}

// neighbour is a spec with parts of others: at the same path, so that most can be read.
func (g guests) neighbour() map[string]any {
	spec := copied(g.specs[g.IntN(len(g.specs))])
	for range g.IntN(grafts) {
		g.graft(spec, g.specs[g.IntN(len(g.specs))])
	}
	return spec
}

// graft goes down both specs alike and copies, removes or empties what it finds where it stops.
func (g guests) graft(into, from map[string]any) {
	keys := slices.Sorted(maps.Keys(from))
	if len(keys) == 0 {
		return
	}
	key := keys[g.IntN(len(keys))]
	below, isObject := from[key].(map[string]any)
	within, both := into[key].(map[string]any)
	switch {
	case isObject && both && g.IntN(4) > 0:
		g.graft(within, below)
	case g.IntN(6) == 0:
		delete(into, key)
	case isObject:
		into[key] = copied(below)
	default:
		into[key] = from[key]
	}
}

func copied(object map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range object {
		if below, is := value.(map[string]any); is {
			value = copied(below)
		}
		out[key] = value
	}
	return out
}

// corpusSpecs are the guests of test/corpus as their users wrote them.
func corpusSpecs(t *testing.T) (specs []map[string]any) {
	t.Helper()
	files, err := filepath.Glob("../../test/corpus/*/vm*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d cases of the corpus: %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var object struct{ Spec map[string]any }
		if err := yaml.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if template, ofVM := object.Spec["template"].(map[string]any); ofVM {
			object.Spec, _ = template["spec"].(map[string]any)
		}
		if object.Spec != nil {
			specs = append(specs, object.Spec)
		}
	}
	return specs
}

func marshaled(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
