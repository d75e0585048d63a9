package cli

import (
	"fmt"
	"html"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kilnvm/kiln/test/golden"
)

// picture is a terminal with commands and their output.
type picture struct {
	name  string
	calls []pictured
}

// pictured is a command, and how its output is shown.
type pictured struct {
	line string
	// from is the beginning of the first line that is shown, and lines the number of lines.
	from  string
	lines int
	// marks are the colors of the rests of lines that begin with a text.
	marks map[string]rune
}

var pictures = []picture{
	{"explain", []pictured{
		{"explain -f examples/vm.yaml --catalog manifests/catalog", "    domain:", 20,
			map[string]rune{"instancetype ": '+', "preference ": '*', "default ": '~', "user": '!'}},
		{"validate -f examples/conflict.yaml --catalog manifests/catalog", "", 5, map[string]rune{"VirtualMachine default/conflict is rejected:": '-'}},
	}},
}

// themes are the colors of a picture: background, text, and the marks.
var themes = map[string]map[rune]string{
	"light": {'b': "#ffffff", 't': "#24292f", '+': "#116329", '-': "#a40e26", '*': "#0a3069", '~': "#6e7781", '!': "#953800", '$': "#57606a"},
	"dark":  {'b': "#0d1117", 't': "#e6edf3", '+': "#7ee787", '-': "#ff7b72", '*': "#79c0ff", '~': "#8b949e", '!': "#ffa657", '$': "#8b949e"},
}

// widestPictured is the number of characters of a line of a picture. Longer lines end in '…'.
const widestPictured = 118

// TestPictures: the pictures of the README show what the commands print.
func TestPictures(t *testing.T) {
	t.Chdir("../..")
	for _, p := range pictures {
		for theme, colors := range themes {
			golden.Compare(t, "docs/images/"+p.name+"-"+theme+".svg", p.svg(t, colors))
		}
	}
}

// escape returns a text for a document. Viewers of SVG join spaces, except those that do not break.
func escape(text string) string { return strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0") }

// svg draws the picture.
func (p picture) svg(t *testing.T, colors map[rune]string) string {
	t.Helper()
	const size, height, width, margin = 13, 19, 8, 16 // width is of a character of this size, rounded up
	var text strings.Builder
	row := 0
	write := func(line string, color rune, marks map[string]rune) {
		row++
		if utf8.RuneCountInString(line) > widestPictured {
			line = string([]rune(line)[:widestPictured-1]) + "…"
		}
		fmt.Fprintf(&text, `<text x="%d" y="%d" fill="%s">`, margin, margin+row*height-5, colors[color])
		at := len(line)
		for words := range marks {
			if i := strings.Index(line, words); i >= 0 && i < at && (i > 0 || words == line) {
				at, color = i, marks[words]
			}
		}
		fmt.Fprintf(&text, `%s<tspan fill="%s">%s</tspan></text>`+"\n", escape(line[:at]), colors[color], escape(line[at:]))
	}
	for i, c := range p.calls {
		if i > 0 {
			row++
		}
		got := call(t, "", strings.Fields(c.line)...)
		write("$ kubectl kiln "+c.line, '$', nil)
		lines := strings.Split(strings.TrimSpace(got.out+got.errOut), "\n")
		for len(lines) > 0 && !strings.HasPrefix(lines[0], c.from) {
			lines = lines[1:]
		}
		if len(lines) < c.lines {
			t.Fatalf("%s prints %d lines from '%s' on, want %d:\n%s%s", c.line, len(lines), c.from, c.lines, got.out, got.errOut)
		}
		for _, line := range lines[:c.lines] {
			write(line, 't', c.marks)
		}
	}
	w, h := widestPictured*width+2*margin, row*height+2*margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<rect width="%[1]d" height="%[2]d" rx="8" fill="%[3]s"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="%[4]d">
%[5]s</g>
</svg>
`, w, h, colors['b'], size, text.String())
}
