package profile

import (
	"errors"
	"slices"
	"testing"
)

// TestWalkExtends: bases come depth first, each once and looked up once, and a reference that cannot be followed does not end the walk.
func TestWalkExtends(t *testing.T) {
	t.Parallel()
	all := []*Profile{
		named(t, "left", "{}", "base", "gone"), named(t, "right", "{}", "base", "top"), named(t, "base", "{}"),
		named(t, "top", "{}", "left", "right", "base", "gone"),
	}
	asked := map[string]int{}
	lookup := func(kind, name string) (*Profile, error) {
		asked[name]++
		return lookupIn(all)(kind, name)
	}
	var got []string
	for e, err := range WalkExtends(all[3], lookup) {
		text := e.From().Name + " " + e.Name
		if err != nil {
			text += ": " + err.Error()
		}
		got = append(got, text)
	}
	want := []string{"top left", "left base", "left gone: " + ErrMissingBase.Error(), "top right", "right top: " + ErrCycle.Error(),
		"top gone: " + ErrMissingBase.Error()}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, times := range asked {
		if times != 1 {
			t.Errorf("%s was looked up %d times", name, times)
		}
	}
}

// TestFailedLookupEndsTheWalk: what could not be read is neither missing nor left out.
func TestFailedLookupEndsTheWalk(t *testing.T) {
	t.Parallel()
	failed, steps := errors.New("no answer"), 0
	for e, err := range WalkExtends(named(t, "top", "{}", "left", "right"), func(string, string) (*Profile, error) { return nil, failed }) {
		if steps++; !errors.Is(err, failed) || e.Name != "left" {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	if steps != 1 {
		t.Errorf("%d references were followed", steps)
	}
}
