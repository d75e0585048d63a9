package cmdutil

import (
	"strings"
	"unicode"
)

// Names, annotations and messages of files, registries and clusters are a stranger's text. What is printed as text goes through printable. JSON and
// YAML are for programs, and stay as they are.

// Printable replaces control characters: names of files and values of annotations are a stranger's, and a terminal obeys them.
// An escape sequence could clear the screen or rewrite lines that were printed before. Trap: tabs and newlines are control characters too. So a row's
// cells go through it one by one, before they are joined, and a text of several lines becomes one line. Format characters, such as those that
// turn the direction of writing, make a line read as another one.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, text)
}

// PrintableLines is printable for a text of several lines, such as errors that are joined or a diff: it keeps newlines, and tabs at the beginning of a
// line.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(rest)] + Printable(rest)
	}
	return strings.Join(lines, "\n")
}

// PrintableCells joins the cells of a row.
// Each cell is made printable alone: a tab in a name would begin a column of its own.
func PrintableCells(cells ...string) string {
	for i := range cells {
		cells[i] = Printable(cells[i])
	}
	return strings.Join(cells, "\t")
}
