package e2e

import (
	"regexp"
	"strconv"

	"github.com/kilnvm/kiln/test/page"
)

// exits finds the exit status that a block of a page names for its last command.
var exits = regexp.MustCompile(`# exit status (\d)\n$`)

// walk runs the scripts of a page and calls after with each. A block without a language is the output of the script before it: walk fails the test if
// the output lacks one of its lines, or if a script ends with another status than the page names. It returns how many scripts ran, and how many
// outputs were compared.
func (h shop) walk(blocks []page.Block, after func(script string)) (scripts, shown int) {
	h.Helper()
	output := ""
	for _, block := range blocks {
		if block.Language == "" {
			if missing := missingLine(output, block.Text); missing != "" {
				h.Errorf("the output has no '%s':\n%s", missing, output)
			}
			shown++
			continue
		}
		want, status := 0, 0
		if match := exits.FindStringSubmatch(block.Text); match != nil {
			want, _ = strconv.Atoi(match[1])
		}
		if output, status = h.run(block.Text); status != want {
			h.Fatalf("%s\nexit status %d, want %d:\n%s", block.Text, status, want, output)
		}
		scripts++
		after(block.Text)
	}
	return scripts, shown
}
