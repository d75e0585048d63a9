package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Suite is a test binary of a package with all its mutants.
type Suite struct {
	Mutants []Mutant
	// dir is the package, where its tests run.
	dir, binary string
}

// Build compiles the tests of the package in dir with all mutants. Files go to work. Tests that import a package that matches
// without are left out, because the package's own tables should notice each change.
func Build(ctx context.Context, dir, work string, without *regexp.Regexp) (*Suite, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Suite{dir: dir, binary: filepath.Join(work, "mutants.test")}
	replace := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if without.Match(text) {
				replace[file] = "" // go build takes it for absent
			}
			continue
		}
		changed, err := readConditions(file, len(s.Mutants))
		if err != nil {
			return nil, err
		}
		s.Mutants = append(s.Mutants, changed.mutants...)
		replace[file] = filepath.Join(work, filepath.Base(file))
		if err := os.WriteFile(replace[file], changed.mutatedText(), 0o600); err != nil {
			return nil, err
		}
	}
	added := filepath.Join(dir, "mutation_switches.go")
	replace[added] = filepath.Join(work, "mutation_switches.go")
	if err := os.WriteFile(replace[added], fmt.Appendf(nil, switches, filepath.Base(dir)), 0o600); err != nil {
		return nil, err
	}
	return s, s.compileTests(ctx, replace, work)
}

func (s *Suite) compileTests(ctx context.Context, replace map[string]string, work string) error {
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, ".")
	build.Dir = s.dir
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Survives reports whether all tests pass with a mutant in effect. A mutant that runs for a minute does not survive. With number 0 the code is unchanged.
func (s *Suite) Survives(ctx context.Context, number int) (bool, error) {
	run := exec.CommandContext(ctx, s.binary, "-test.short", "-test.failfast", "-test.timeout=1m")
	run.Dir, run.Env = s.dir, append(os.Environ(), fmt.Sprintf("MUTANT=%d", number))
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	err := run.Run()
	if failed := new(exec.ExitError); errors.As(err, &failed) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
