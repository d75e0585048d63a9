package corpus

import (
	"testing"
	"unicode/utf8"
)

// TestWarningsAreShort: clients cut what is longer, and several come at once.
func TestWarningsAreShort(t *testing.T) {
	const most = 120
	for _, c := range everything(t) {
		for _, warning := range c.warned {
			if length := utf8.RuneCountInString(warning); length > most {
				t.Errorf("%s: a warning of %d characters: %s", c.name, length, warning)
			}
		}
	}
}
