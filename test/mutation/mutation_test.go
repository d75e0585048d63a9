package mutation

import (
	"bufio"
	"cmp"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// equivalent are the mutants that change nothing that a caller could see, with the reason: a line each, "mutant # reason".
const equivalent = "equivalent.txt"

// withoutTable are files whose conditions no table tries yet.
var withoutTable = strings.Fields(`
	devices.go devices_architecture.go devices_names.go
	disks.go disks_blocksize.go disks_cloudinit.go disks_drivers.go disks_requests.go disks_sources.go disks_templates.go disks_volumes.go
	validate.go vm_changes.go warnings.go
`)

// TestConditionsOfValidate changes conditions of pkg/validate, MUTANTS of them (12 by default, 0 is all). The tables of that package notice
// each change but those of equivalent.txt. SEED repeats a choice; ONLY is a list of files, of which all conditions are
// changed.
func TestConditionsOfValidate(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a test binary")
	}
	suite, err := Build(t.Context(), "../../pkg/validate", t.TempDir(), regexp.MustCompile("kiln/test/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := suite.Survives(t.Context(), 0); err != nil || !alive {
		t.Fatalf("the tests fail without a mutant: %v", err)
	}
	seed, wanted := number("SEED", rand.Uint64()), int(number("MUTANTS", 12))
	reasons, only := reasons(t), os.Getenv("ONLY")
	chosen := slices.DeleteFunc(slices.Clone(suite.Mutants), func(m Mutant) bool {
		return only != "" && !slices.Contains(strings.Fields(only), m.File) || only == "" && slices.Contains(withoutTable, m.File)
	})
	if wanted > 0 && only == "" {
		chosen = slices.DeleteFunc(chosen, func(m Mutant) bool { return reasons[m.String()] != "" })
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:min(wanted, len(chosen))]
	}
	survivors := survivors(t, suite, chosen)
	t.Logf("SEED=%d: %d of %d mutants killed, %d of %d tried", seed, len(chosen)-len(survivors), len(chosen), len(chosen), len(suite.Mutants))
	known := map[string]bool{}
	for _, m := range survivors {
		known[m.String()] = true
		if reasons[m.String()] == "" {
			t.Errorf("no test of pkg/validate notices, line %d: %s", m.Line, m)
		}
	}
	for text := range reasons {
		if wanted == 0 && only == "" && !known[text] {
			t.Errorf("%s: a test notices this mutant, or it is gone: %s", equivalent, text)
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
