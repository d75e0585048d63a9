package corpus

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// number of an environment variable, or the default.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestLaws tries the laws on the cases and on PROPS neighbours of them. SEED repeats a run.
func TestLaws(t *testing.T) {
	seed, wanted := number("SEED", rand.Uint64()), number("PROPS", 2000)
	t.Logf("SEED=%d PROPS=%d", seed, wanted)
	g := newGenerator(t, rand.New(rand.NewPCG(seed, 0)))
	var tally tally
	for _, s := range g.subjects {
		tally.try(t, g, s)
	}
	for range wanted {
		s, err := g.neighbour()
		if err != nil {
			tally.illegible++ // the API server's schema refuses it
			continue
		}
		tally.try(t, g, s)
	}
	t.Logf("%+v", tally)
}

// tally of a run.
type tally struct{ illegible, refused, unknown, rendered, unrendered, broken int }

// enough findings: the rest of a run would repeat them.
const enough = 10

func (n *tally) try(t *testing.T, g generator, s subject) {
	t.Helper()
	out, broken := stageOne(s)
	switch {
	case len(out.errs) > 0:
		n.refused++
	case !out.known:
		n.unknown++
	default:
		made := stages(g, out.explicit, s.in.Cluster)
		if n.rendered++; len(made) > 0 {
			n.unrendered++
		}
		broken = append(broken, made...)
	}
	if len(broken) == 0 {
		return
	}
	if n.broken++; n.broken > enough {
		t.FailNow()
	}
	for _, finding := range slices.Compact(broken) {
		t.Errorf("%s: %s", s.name, finding)
	}
	t.Logf("object: %s\nset: %s\npresets: %s", s.raw, text(s.in.Set), text(s.in.Presets))
}
