package shorten_test

import (
	"testing"

	"github.com/kilnvm/kiln/pkg/shorten"
)

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text                 string
		most                 int
		prefix, bytes, runes string
	}{
		{"", 3, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "abc", "abc…", "ab…"},
		{"äöü", 3, "ä", "ä…", "äöü"},
		{"äöüß", 3, "ä", "ä…", "äö…"},
		{"a\xffbc", 3, "a\xffb", "ab…", "a\ufffd…"},
		{"\xbf\xbf\xbf", 1, "", "…", "…"},
		{"abcd", 0, "", "…", ""},
	} {
		if got := shorten.Prefix(c.text, c.most); got != c.prefix {
			t.Errorf("Prefix(%q, %d) = %q, want %q", c.text, c.most, got, c.prefix)
		}
		if got := shorten.Bytes(c.text, c.most); got != c.bytes {
			t.Errorf("Bytes(%q, %d) = %q, want %q", c.text, c.most, got, c.bytes)
		}
		if c.most == 0 {
			continue // no ellipsis fits
		}
		if got := shorten.Runes(c.text, c.most); got != c.runes {
			t.Errorf("Runes(%q, %d) = %q, want %q", c.text, c.most, got, c.runes)
		}
	}
}
