package cmdutil

import (
	"strings"
	"unicode"
)

// Names, annotations and messages of files, registries and clusters are not trusted. Text output replaces their control characters; JSON and YAML, which are
// for programs, do not.

// Printable replaces control characters, because an escape sequence could clear the screen or rewrite lines that were printed before. It also replaces format
// characters, such as those that change the direction of writing. Trap: tabs and newlines are control characters, too. So the cells of a row must be passed
// one by one, and a text of several lines becomes one line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, text)
}

// PrintableLines is Printable for a text of several lines, such as joined errors or a diff: it keeps newlines, and tabs at the beginning of a
// line.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(rest)] + Printable(rest)
	}
	return strings.Join(lines, "\n")
}

// PrintableCells joins the cells of a row with tabs. It replaces the control characters of each cell, because a tab in a name would begin a new column.
func PrintableCells(cells ...string) string {
	for i := range cells {
		cells[i] = Printable(cells[i])
	}
	return strings.Join(cells, "\t")
}
