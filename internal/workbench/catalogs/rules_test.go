package catalogs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/golden"
)

// TestReference compares the table of rules in docs/how-to/catalog.md with the rules. 'make golden' writes it.
func TestReference(t *testing.T) {
	const page, head = "../../../docs/how-to/catalog.md", "| rule | severity | a catalog is in order if |\n|---|---|---|\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(raw), head)
	_, after, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table of rules", page)
	}
	var rows strings.Builder
	for _, rule := range Rules() {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", rule.Name, rule.Severity, rule.Says)
	}
	golden.Compare(t, page, before+head+rows.String()+"\n"+after)
}
