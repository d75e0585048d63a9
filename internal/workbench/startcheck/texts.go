package startcheck

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/shorten"
)

const (
	// longestText bounds a text of an object, in bytes. A message of the scheduler about many kinds of nodes has some hundred.
	longestText = 600
	// longestName bounds a name, in bytes. It is the maximum of Kubernetes for most names.
	longestName = 253
	// mostNamed bounds the objects that one text names.
	mostNamed = 3
)

// oneLine returns a text of an object on one line, without control and format characters, and bounded. A tenant may have written it: format characters could
// turn the direction of writing, and so show another sentence than the one that is copied.
func oneLine(text string) string {
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return '?'
		}
		return r
	}, condition.OneLine(shorten.Bytes(text, 8*longestText)))
	return shorten.Bytes(strings.Join(strings.Fields(plain), " "), longestText)
}

// quoteName returns a name in quotes.
func quoteName(name string) string { return "'" + shorten.Bytes(oneLine(name), longestName) + "'" }

// joinTexts returns the first texts, and how many follow.
func joinTexts(texts []string) string {
	if len(texts) <= mostNamed {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:mostNamed], "; "), len(texts)-mostNamed)
}
