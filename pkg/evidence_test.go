package pkg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// holders are the tests of a promise that are in one directory, or cases of the corpus.
	holders = regexp.MustCompile("^`([^`]+)` (cases? )?(.+)$")
	// holder is a test, and the name of its subtest.
	holder = regexp.MustCompile(`^((?:Test|Fuzz)\w+)(?: \(([^)]+)\))?$`)
)

// TestThreatModel: each promise of docs/threat-model.md names tests and cases that exist.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	promises, promising := 0, false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			promising = false
			continue
		case strings.Contains(line, "| held by |"):
			promising = true
			continue
		case !promising || strings.HasPrefix(line, "|---"):
			continue
		}
		promises++
		if len(cells) != 2 {
			t.Errorf("%d cells, want a promise and what holds it: %s", len(cells), line)
			continue
		}
		if held := strings.TrimSpace(cells[1]); held != "no test of its own" {
			for _, part := range strings.Split(held, "; ") {
				if err := existing(part); err != nil {
					t.Errorf("the promise '%s': %v", strings.TrimSpace(cells[0]), err)
				}
			}
		}
	}
	if promises < 40 {
		t.Errorf("found %d promises: the tables have another form than this test reads", promises)
	}
}

// TestThreatModelOfNothing: what does not exist is found out.
func TestThreatModelOfNothing(t *testing.T) {
	for _, right := range []string{"`pkg` TestThreatModel", "`manifests` TestOnServer (and nothing more)", "`test/corpus` case security-quote-socket",
		"`pkg/render` FuzzRecord, TestHostileRecords"} {
		if err := existing(right); err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range []string{"", "TestThreatModel", "`pkg` TestThreat", "`pkg/nowhere` TestThreatModel", "`pkg` TestThreatModel, TestNothing",
		"`pkg` holder", "`manifests` TestOnServer (nothing)", "`test/corpus` cases security-quote-socket, nothing"} {
		if existing(wrong) == nil {
			t.Errorf("'%s' passes for tests that exist", wrong)
		}
	}
}

// existing returns an error for the first test or case that does not exist.
func existing(part string) error {
	names := holders.FindStringSubmatch(part)
	if names == nil {
		return fmt.Errorf("'%s' names no directory and tests", part)
	}
	dir := filepath.Join("..", filepath.FromSlash(names[1]))
	tests, err := testsOf(dir)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(names[3], ", ") {
		if names[2] != "" {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return err
			}
			continue
		}
		test := holder.FindStringSubmatch(name)
		if test == nil || !strings.Contains(tests, "\nfunc "+test[1]+"(") {
			return fmt.Errorf("%s has no test '%s'", names[1], name)
		}
		if test[2] != "" && !strings.Contains(tests, "t.Run("+strconv.Quote(test[2])) {
			return fmt.Errorf("%s has no subtest '%s'", names[1], test[2])
		}
	}
	return nil
}

// testsOf is the text of all tests of a directory.
func testsOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(fmt.Errorf("'%s' has no tests", dir), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}
