// Package page reads the commands of a page of docs, so that a test runs what a reader would.
package page

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of code of a page.
type Block struct{ Language, Text string }

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// Blocks returns the blocks of code in a section of a page, or of the whole page if the section is empty. The test fails if the page has no such section, or
// if there is no block.
func Blocks(t testing.TB, file, section string) (blocks []Block) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if section != "" {
		_, after, found := strings.Cut(text, "\n## "+section+"\n")
		if !found {
			t.Fatalf("%s has no section '%s'", file, section)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, Block{Language: block[1], Text: block[2]})
	}
	if len(blocks) == 0 {
		t.Fatalf("section '%s' of %s has no commands", section, file)
	}
	return blocks
}
