package pkg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// holders are the tests of a row that are in one directory, or cases of the corpus.
	holders = regexp.MustCompile("^`([^`]+)` (cases? )?(.+)$")
	// holder is a test, and the name of its subtest.
	holder = regexp.MustCompile(`^((?:Test|Fuzz)\w+)(?: \(([^)]+)\))?$`)
)

// TestThreatModel: each promise of docs/project/threat-model.md names tests and cases that exist.
func TestThreatModel(t *testing.T) {
	rows := table(t, "../docs/project/threat-model.md", "| held by |")
	if len(rows) < 40 {
		t.Errorf("found %d promises: the tables have another form than this test reads", len(rows))
	}
	for _, cells := range rows {
		if len(cells) != 2 {
			t.Errorf("%d cells, want a promise and what holds it: %q", len(cells), cells)
			continue
		}
		shown(t, cells[0], cells[1])
	}
}

// TestSupport: each feature of docs/reference/support.md has a state, and names tests and cases that exist. Only what is not served may have none.
func TestSupport(t *testing.T) {
	rows := table(t, "../docs/reference/support.md", "| evidence |")
	if len(rows) < 30 {
		t.Errorf("found %d features: the table has another form than this test reads", len(rows))
	}
	for _, cells := range rows {
		switch {
		case len(cells) != 3 || !slices.Contains([]string{"runs", "explicit", "renders", "not served"}, cells[1]):
			t.Errorf("want a feature, its state and the evidence: %q", cells)
		case cells[2] == noTest && cells[1] != "not served":
			t.Errorf("'%s' is said to be '%s' without evidence", cells[0], cells[1])
		default:
			shown(t, cells[0], cells[2])
		}
	}
}

// TestRights: each right of docs/reference/rights.md names tests that exist.
func TestRights(t *testing.T) {
	rows := table(t, "../docs/reference/rights.md", "| needed by |")
	if len(rows) < 40 {
		t.Errorf("found %d rights: the tables have another form than this test reads", len(rows))
	}
	for _, cells := range rows {
		if len(cells) != 5 || cells[4] == noTest {
			t.Errorf("want group, resource, verbs, purpose and tests: %q", cells)
			continue
		}
		shown(t, cells[2]+" "+cells[1], cells[4])
	}
}

// noTest stands where no test shows what a row says.
const noTest = "no test of its own"

// shown fails unless all tests and cases that a row names exist.
func shown(t *testing.T, claim, evidence string) {
	t.Helper()
	if evidence == noTest {
		return
	}
	for _, part := range strings.Split(evidence, "; ") {
		if err := existing(part); err != nil {
			t.Errorf("'%s': %v", claim, err)
		}
	}
}

// table returns the cells of all rows of those tables of a page whose header has a column.
func table(t *testing.T, page, column string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.Contains(line, column):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			for i, cell := range cells {
				cells[i] = strings.TrimSpace(cell)
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// TestEvidenceOfNothing: what does not exist is found out.
func TestEvidenceOfNothing(t *testing.T) {
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
