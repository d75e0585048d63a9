package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// TestLogEntriesAreLines: an entry is one line of JSON of bounded length, whatever a tenant wrote.
func TestLogEntriesAreLines(t *testing.T) {
	for _, hostile := range []string{"a\nb", "a\r\n{\"level\":\"ERROR\"}", "\x00\xff\u2028", strings.Repeat("ü", longestValue), strings.Repeat("\x1b[2J", 100)} {
		var lines bytes.Buffer
		logger := logr.FromSlogHandler(handler(&lines, slog.LevelInfo))
		logger.Error(errors.New(hostile), "request failed", "name", hostile)
		text := lines.String()
		if strings.Count(text, "\n") != 1 || len(text) > 8*longestValue || strings.ContainsAny(strings.TrimSuffix(text, "\n"), "\x00\x1b\r") {
			t.Errorf("%.40q: %d bytes: %.200q", hostile, len(text), text)
		}
		var entry struct{ Level, Msg, Err, Name string }
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.Level != "ERROR" || entry.Msg != "request failed" || entry.Err != entry.Name {
			t.Errorf("%.40q: %v: %.200s", hostile, err, text)
		}
	}
}
