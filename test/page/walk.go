package page

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exits finds the exit status that a block of a page names for its last command.
var exits = regexp.MustCompile(`# exit status (\d)\n$`)

// Walk runs the scripts of a page and calls after with each. A block without a language is the output of the script before it: Walk fails the test if the
// output lacks one of its lines, or if a script ends with another status than the page names. It returns how many scripts ran, and how many outputs were
// compared.
func Walk(t testing.TB, blocks []Block, run func(script string) (output string, status int), after func(script string)) (scripts, shown int) {
	t.Helper()
	output := ""
	for _, block := range blocks {
		if block.Language == "" {
			if missing := MissingLine(output, block.Text); missing != "" {
				t.Errorf("the output has no '%s':\n%s", missing, output)
			}
			shown++
			continue
		}
		want, status := 0, 0
		if match := exits.FindStringSubmatch(block.Text); match != nil {
			want, _ = strconv.Atoi(match[1])
		}
		if output, status = run(block.Text); status != want {
			t.Fatalf("%s\nexit status %d, want %d:\n%s", block.Text, status, want, output)
		}
		scripts++
		after(block.Text)
	}
	return scripts, shown
}

// MissingLine returns the first line shown that the output does not have next, or the first line of the output that is not shown. A line '...' stands for any
// lines, '...' within a line for any text, and spaces count as one. So a page cannot leave lines out without a mark.
func MissingLine(output, shown string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	gap := false
	for line := range strings.Lines(shown) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "..." {
			gap = true
			continue
		}
		is := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), regexp.QuoteMeta("..."), ".*") + "$")
		for gap && len(lines) > 0 && !is.MatchString(strings.Join(strings.Fields(lines[0]), " ")) {
			lines = lines[1:]
		}
		if len(lines) == 0 || !is.MatchString(strings.Join(strings.Fields(lines[0]), " ")) {
			return line
		}
		lines, gap = lines[1:], false
	}
	if len(lines) > 0 && !gap {
		return "..., for the line that is not shown: " + lines[0]
	}
	return ""
}
