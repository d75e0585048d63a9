package corpus

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWarningsAreShort: clients cut what is longer, and several come at once. What names the object that set a field may be longer: API servers pass on 256
// characters.
func TestWarningsAreShort(t *testing.T) {
	for _, c := range everything(t) {
		for _, warning := range c.warned {
			most := 120
			if strings.Contains(warning, "' sets ") {
				most = 256
			}
			if length := utf8.RuneCountInString(warning); length > most {
				t.Errorf("%s: a warning of %d characters: %s", c.name, length, warning)
			}
		}
	}
}
