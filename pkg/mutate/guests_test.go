package mutate

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

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

// guests makes specs out of the specs of the corpus.
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
