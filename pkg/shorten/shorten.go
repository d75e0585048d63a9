// Package shorten cuts texts of any length between characters, for messages, warnings and logs. Tenants and administrators may have written a megabyte.
package shorten

import (
	"strings"
	"unicode/utf8"
)

// Prefix returns the longest beginning of a text that has at most the given number of bytes and does not end within a character.
func Prefix(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:max(most, 0)]
}

// Bytes returns a text of at most the given number of bytes as it is. Of a longer text it returns the beginning, which is valid UTF-8, and an ellipsis.
func Bytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Runes cuts a text to the given number of characters. The last character is an ellipsis if the text was longer.
func Runes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
