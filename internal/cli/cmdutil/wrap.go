package cmdutil

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Wrapped returns a writer that breaks lines between words at the width of the terminal, or out if it is not a terminal: a program reads one line for each
// answer. The rest of a line is indented below its last column.
func Wrapped(out io.Writer) io.Writer {
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return out
	}
	return &wrapper{file: file}
}

// Unwrapped returns the writer below Wrapped, for XML and what else must not be changed.
func Unwrapped(out io.Writer) io.Writer {
	if w, is := out.(*wrapper); is {
		return w.file
	}
	return out
}

// wrapper breaks the lines that are written to a terminal.
type wrapper struct {
	file *os.File
	// width is the width of the terminal when the line began; 0 if it is unknown.
	width int
	// column is where the next character is written, and start where the last column of a table or a list begins. Both are counted from 0.
	column, start int
	// spaces is the number of spaces that were received after the last word. They are written only before another word.
	spaces int
	// command reports that the line is a command, which can be copied only if it is not broken.
	command bool
}

// narrowest is the width below which lines are not broken, because hardly a word would stand in a line.
const narrowest = 30

// commands are the first words of lines with commands.
var commands = []string{"kubectl", "kustomize"}

// Write writes text. It breaks a line before a word that would end behind the edge.
func (w *wrapper) Write(text []byte) (int, error) {
	var out bytes.Buffer
	written := len(text)
	for len(text) > 0 {
		switch end := bytes.IndexAny(text, " \n"); {
		case end == 0 && text[0] == '\n':
			out.WriteByte('\n')
			w.column, w.start, w.spaces, w.command = 0, 0, 0, false
			text = text[1:]
		case end == 0:
			w.spaces++
			text = text[1:]
		case end < 0:
			w.addWord(&out, string(text))
			text = nil
		default:
			w.addWord(&out, string(text[:end]))
			text = text[end:]
		}
	}
	_, err := w.file.Write(out.Bytes())
	if err != nil {
		return 0, err
	}
	return written, nil
}

// addWord writes a word with the spaces before it, or on a line of its own.
func (w *wrapper) addWord(out *bytes.Buffer, word string) {
	if w.column == 0 {
		w.width, _, _ = term.GetSize(int(w.file.Fd()))
		w.command = slices.Contains(commands, word)
		w.start = w.spaces + 4 // what continues a line without columns
	}
	wide := visibleWidth(word)
	begin := w.column + w.spaces
	if w.column > 0 && w.spaces > 1 && begin < w.width*2/3 { // another column begins; a narrow last column would make many lines
		w.start = begin
	}
	if broken := w.column > 0 && w.spaces > 0 && begin+wide > w.width && w.start+wide <= w.width; broken && w.width >= narrowest && !w.command {
		out.WriteString("\n" + strings.Repeat(" ", w.start) + word)
		w.column = w.start + wide
	} else {
		out.WriteString(strings.Repeat(" ", w.spaces) + word)
		w.column = begin + wide
	}
	w.spaces = 0
}

// visibleWidth returns the number of characters of a word, without the escape sequences of colors.
func visibleWidth(word string) int {
	wide := 0
	for {
		before, rest, found := strings.Cut(word, "\x1b[")
		wide += utf8.RuneCountInString(before)
		if !found {
			return wide
		}
		_, word, _ = strings.Cut(rest, "m")
	}
}
