package cmdutil

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Color is a color of terminals, as the parameter of the escape sequence SGR.
type Color string

// Colors of verdicts.
const (
	Red    Color = "31" // rejected, failed, breaks
	Green  Color = "32" // accepted, passed
	Yellow Color = "33" // warnings
)

// Paint returns a text in a color if out is a terminal, and otherwise the text. https://no-color.org: the variable NO_COLOR turns colors off.
// The text must not contain what others wrote, unless Printable has replaced its control characters.
func Paint(out io.Writer, color Color, text string) string {
	file, is := Unwrapped(out).(*os.File)
	if !is || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(file.Fd())) {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[0m"
}
