package golden

import (
	"strings"
	"testing"
)

const frontend = "<domain>\n  <name>a</name>\n  <devices>\n    <disk></disk>\n    <disk></disk>\n  </devices>\n</domain>\n"

func TestDifferenceAndBack(t *testing.T) {
	for name, domain := range map[string]string{
		"added, twice":        strings.Replace(frontend, "<disk></disk>", "<disk><source file=\"/a\"></source></disk>", 1),
		"removed":             strings.Replace(frontend, "    <disk></disk>\n", "", 1),
		"at both ends":        "<!-- -->\n" + frontend + "<!-- -->\n",
		"lines like a diff's": strings.Replace(frontend, "  <name>", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No\n  <name>", 1),
		"without a last line": strings.TrimSuffix(frontend, "\n"),
		"all of it":           "<domain/>\n",
	} {
		t.Run(name, func(t *testing.T) {
			difference := Difference(frontend, domain)
			got, err := Expand(frontend, difference)
			if err != nil || got != domain {
				t.Errorf("%v\n%s\nof\n%s\nwant\n%s", err, got, difference, domain)
			}
		})
	}
}

// A difference that would fit elsewhere too, or nearly, must not be applied: two goldens that belong to different runs would
// pass as one.
func TestDifferenceOfAnotherFrontend(t *testing.T) {
	difference := Difference(frontend, strings.Replace(frontend, "<name>a", "<name>b", 1))
	for name, other := range map[string]string{
		"a line further down":      "<!-- -->\n" + frontend,
		"another line beside it":   strings.Replace(frontend, "<devices>", "<devices x='1'>", 1),
		"the line itself is other": strings.Replace(frontend, "<name>a", "<name>c", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Expand(other, difference); err == nil {
				t.Errorf("it was applied:\n%s", got)
			}
		})
	}
	if got, err := Expand(frontend, ""); err == nil {
		t.Errorf("an empty difference was applied: %s", got)
	}
}
