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

// TestLogKeysAreUnique: an entry has no key twice. The same value is written once, another one under a key of its own.
func TestLogKeysAreUnique(t *testing.T) {
	var lines bytes.Buffer
	logger := logr.FromSlogHandler(handler(&lines, slog.LevelInfo)).WithValues("name", "a", "gvk", struct{ Kind string }{"Webhook"}, "list", []int{1})
	logger.WithValues("name", "a", "uid", "1").Info("message", "name", "a", "gvk", struct{ Kind string }{"Webhook"}, "list", []int{1},
		"uid", "2", "uid", "3", "uid", "2")
	entry := strings.TrimSpace(lines.String())
	_, entry, _ = strings.Cut(entry, `"msg":`)
	if want := `"message","name":"a","gvk":{"Kind":"Webhook"},"list":[1],"uid":"1","uid2":"2","uid3":"3"}`; entry != want {
		t.Errorf("got  %s\nwant %s", entry, want)
	}
	lines.Reset()
	slog.New(handler(&lines, slog.LevelInfo)).With("name", "a").WithGroup("of").With("name", "a").Info("message", "name", "b")
	if !strings.HasSuffix(strings.TrimSpace(lines.String()), `"name":"a","of":{"name":"a","name2":"b"}}`) {
		t.Errorf("a group has keys of its own: %s", lines.String())
	}
}
