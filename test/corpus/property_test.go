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
	var cases, neighbours tally
	for _, s := range g.subjects {
		cases.try(t, g, s)
	}
	for range wanted {
		s, err := g.neighbour()
		if err != nil {
			neighbours.illegible++ // the API server's schema refuses it
			continue
		}
		neighbours.try(t, g, s)
	}
	t.Logf("cases %+v, neighbours %+v", cases, neighbours)
	cases.enough(t)
	neighbours.enough(t)
}

// A run in which too few VMIs are rendered shows nothing of what holds for VMIs that are let in: the generator, or a rule, is
// broken then. About a third of all neighbours are rendered, and two fifths and more of the recorded VMIs.
const (
	leastRendered = 0.2
	// fewTries are too few for a share.
	fewTries = 200
)

// enough demands that a share of those tried was rendered.
func (n tally) enough(t *testing.T) {
	t.Helper()
	all := n.illegible + n.refused + n.unknown + n.rendered
	if rendered := n.rendered - n.unrendered; all >= fewTries && float64(rendered) < leastRendered*float64(all) {
		t.Errorf("%d of %d guests were rendered, less than %.0f %%: the laws were tried on too few", rendered, all, 100*leastRendered)
	}
}

// tally of a run.
type tally struct{ illegible, refused, unknown, rendered, unrendered, broken int }

// maxFindings of a run: the rest would repeat them.
const maxFindings = 10

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
	if n.broken++; n.broken > maxFindings {
		t.FailNow()
	}
	for _, finding := range slices.Compact(broken) {
		t.Errorf("%s: %s", s.name, finding)
	}
	t.Logf("object: %s\nset: %s\npresets: %s", s.raw, text(s.in.Set), text(s.in.Presets))
}
