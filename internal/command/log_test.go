package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLogEntriesAreLines: an entry is one line of JSON of bounded length, whatever a tenant wrote.
func TestLogEntriesAreLines(t *testing.T) {
	for _, hostile := range []string{"a\nb", "a\r\n{\"level\":\"ERROR\"}", "\x00\xff\u2028", strings.Repeat("ü", longestValue), strings.Repeat("\x1b[2J", 100)} {
		var lines bytes.Buffer
		logger := logr.FromSlogHandler(newLogHandler(&lines, slog.LevelInfo))
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
	logger := logr.FromSlogHandler(newLogHandler(&lines, slog.LevelInfo)).WithValues("name", "a", "gvk", struct{ Kind string }{"Webhook"}, "list", []int{1})
	logger.WithValues("name", "a", "uid", "1").Info("message", "name", "a", "gvk", struct{ Kind string }{"Webhook"}, "list", []int{1},
		"uid", "2", "uid", "3", "uid", "2")
	entry := strings.TrimSpace(lines.String())
	_, entry, _ = strings.Cut(entry, `"msg":`)
	if want := `"message","name":"a","gvk":{"Kind":"Webhook"},"list":[1],"uid":"1","uid2":"2","uid3":"3"}`; entry != want {
		t.Errorf("got  %s\nwant %s", entry, want)
	}
	lines.Reset()
	slog.New(newLogHandler(&lines, slog.LevelInfo)).With("name", "a").WithGroup("of").With("name", "a").Info("message", "name", "b")
	if !strings.HasSuffix(strings.TrimSpace(lines.String()), `"name":"a","of":{"name":"a","name2":"b"}}`) {
		t.Errorf("a group has keys of its own: %s", lines.String())
	}
}

// TestNormalErrors: a write that another one has overtaken, and one into a namespace that is being deleted, are no errors of the process.
func TestNormalErrors(t *testing.T) {
	about := schema.GroupResource{Resource: "events"}
	terminating := apierrors.NewForbidden(about, "a", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, test := range []struct {
		err  error
		from slog.Level
		want string
	}{
		{errors.New("disk full"), slog.LevelInfo, "ERROR"},
		{apierrors.NewForbidden(about, "a", errors.New("no right")), slog.LevelInfo, "ERROR"},
		{terminating, slog.LevelInfo, ""},
		{fmt.Errorf("creating: %w", terminating), slog.LevelDebug, "DEBUG"},
		{apierrors.NewConflict(about, "a", errors.New("modified")), slog.LevelInfo, ""},
	} {
		var lines bytes.Buffer
		logr.FromSlogHandler(newLogHandler(&lines, test.from)).Error(test.err, "Server rejected event")
		var entry struct{ Level string }
		if lines.Len() > 0 {
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				t.Fatal(err)
			}
		}
		if entry.Level != test.want {
			t.Errorf("%v: level '%s', want '%s'", test.err, entry.Level, test.want)
		}
	}
}

// TestPrintedLines: what libraries print by package log is an entry like all others.
func TestPrintedLines(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, before := os.Stderr, slog.Default()
	os.Stderr = write
	Log(slog.LevelInfo)
	log.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	os.Stderr = stderr
	slog.SetDefault(before)
	log.SetOutput(stderr)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	var entry struct{ Level, Msg string }
	if err != nil || json.Unmarshal(text, &entry) != nil || entry.Level != "INFO" || !strings.HasPrefix(entry.Msg, "http: TLS handshake error") {
		t.Errorf("%s (%v)", text, err)
	}
}
