package command

import (
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"
)

// longestValue bounds a value of a log entry in bytes. Errors quote what tenants wrote; the stack of a panic is some kilobytes.
const longestValue = 8 << 10

// handler writes one line of JSON for each entry. JSON has an escape for every byte that could end a line or begin another entry.
func handler(to io.Writer, from slog.Level) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{Level: from, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch value := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(shortened(value))
		case error:
			a.Value = slog.StringValue(shortened(value.Error()))
		}
		return a
	}})
}

// shortened returns a text of about longestValue bytes at most, cut between characters.
func shortened(text string) string {
	if len(text) <= longestValue {
		return text
	}
	end := longestValue
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… and %d bytes more", text[:end], len(text)-end)
}
