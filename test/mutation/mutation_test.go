package mutation

import (
	"bufio"
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// equivalent are the mutants that change nothing that a caller could see, with the reason: a line each, "mutant # reason".
const equivalent = "equivalent.txt"

// packages are those whose conditions have tables: the rules, and what they and the other stages ask about a VMI.
var packages = []string{"../../pkg/validate", "../../pkg/internal/vm"}

// TestConditions changes conditions of each package, MUTANTS of them (12 by default, 0 is all). The tables of that package notice each change that is not in
// equivalent.txt. SEED repeats a choice. ONLY is a list of files such as validate/cpu.go: all conditions of these files are changed.
func TestConditions(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles test binaries")
	}
	reasons := reasons(t)
	for _, dir := range packages {
		t.Run(filepath.Base(dir), func(t *testing.T) { conditionsOf(t, dir, reasons) })
	}
}

// conditionsOf tries the mutants of one package.
func conditionsOf(t *testing.T, dir string, reasons map[string]string) {
	only, prefix := strings.Fields(os.Getenv("ONLY")), filepath.Base(dir)+"/"
	if len(only) > 0 && !slices.ContainsFunc(only, func(file string) bool { return strings.HasPrefix(file, prefix) }) {
		t.Skip("ONLY names no file of this package")
	}
	suite, err := Build(t.Context(), dir, t.TempDir(), regexp.MustCompile("kiln/test/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := suite.Survives(t.Context(), 0); err != nil || !alive {
		t.Fatalf("the tests fail without a mutant: %v", err)
	}
	seed, wanted := number("SEED", rand.Uint64()), int(number("MUTANTS", 12))
	chosen := slices.Clone(suite.Mutants)
	switch {
	case len(only) > 0:
		chosen = slices.DeleteFunc(chosen, func(m Mutant) bool { return !slices.Contains(only, m.File) })
	case wanted > 0:
		chosen = slices.DeleteFunc(chosen, func(m Mutant) bool { return reasons[m.String()] != "" })
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:min(wanted, len(chosen))]
	}
	survivors := survivors(t, suite, chosen)
	t.Logf("SEED=%d: %d of %d mutants killed, %d of %d tried", seed, len(chosen)-len(survivors), len(chosen), len(chosen), len(suite.Mutants))
	alive := map[string]bool{}
	for _, m := range survivors {
		alive[m.String()] = true
		if reasons[m.String()] == "" {
			t.Errorf("no test of the package notices, line %d: %s", m.Line, m)
		}
	}
	for mutant := range reasons {
		if wanted == 0 && len(only) == 0 && strings.HasPrefix(mutant, prefix) && !alive[mutant] {
			t.Errorf("%s: a test notices this mutant, or it is gone: %s", equivalent, mutant)
		}
	}
}

// survivors tries mutants, two at a time.
func survivors(t *testing.T, suite *Suite, chosen []Mutant) (alive []Mutant) {
	var lock sync.Mutex
	var workers sync.WaitGroup
	next := make(chan Mutant)
	for range 2 {
		workers.Go(func() {
			for m := range next {
				survived, err := suite.Survives(t.Context(), m.ID)
				lock.Lock()
				if err != nil {
					t.Errorf("%s: %v", m, err)
				} else if survived {
					alive = append(alive, m)
				}
				lock.Unlock()
			}
		})
	}
	for _, m := range chosen {
		next <- m
	}
	close(next)
	workers.Wait()
	slices.SortFunc(alive, func(a, b Mutant) int { return cmp.Compare(a.ID, b.ID) })
	return alive
}

func reasons(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open(equivalent)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		mutant, reason, _ := strings.Cut(lines.Text(), " # ")
		if mutant == "" {
			continue
		}
		if reason == "" {
			t.Errorf("%s: no reason for: %s", equivalent, mutant)
		}
		all[mutant] = reason
	}
	return all
}

func number(name string, otherwise uint64) uint64 {
	if given, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return given
	}
	return otherwise
}
