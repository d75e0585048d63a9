package guest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/test/guest"
	"github.com/kilnvm/kiln/test/poll"
)

// stuckLog blocks each write until freed is closed.
type stuckLog struct {
	freed chan struct{}
	mutex sync.Mutex
	text  bytes.Buffer
}

func (s *stuckLog) Write(text []byte) (int, error) {
	<-s.freed
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(text)
}

func (s *stuckLog) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.String()
}

// openTestConsole returns a console and QEMU's end of its pipe.
func openTestConsole(t *testing.T, log io.Writer) (*consolePipe, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "serial.log")
	c, err := openConsole(path, log)
	if err != nil {
		t.Fatal(err)
	}
	qemu, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { qemu.Close() })
	return c, qemu
}

// TestConsoleIsTheLog: QEMU writes single characters. While the log is stuck, a megabyte is queued, and the rest is dropped and counted: the guest never waits.
func TestConsoleIsTheLog(t *testing.T) {
	for _, test := range []struct {
		why         string
		bytes       int
		wantDropped bool
	}{
		{"a burst that fits is kept whole", 60 << 10, false},
		{"a flood is dropped in part", 4 << 20, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			log := &stuckLog{freed: make(chan struct{})}
			c, qemu := openTestConsole(t, log)
			step := 1
			if test.wantDropped {
				step = 4096
			}
			for range test.bytes / step {
				if _, err := io.WriteString(qemu, strings.Repeat("x", step)); err != nil {
					t.Fatal(err)
				}
			}
			close(log.freed)
			if _, err := io.WriteString(qemu, "last words"); err != nil {
				t.Fatal(err)
			}
			c.drainAndClose()
			kept, dropped := 0, 0
			for _, entry := range parseEntries(t, log.String()) {
				kept, dropped = kept+strings.Count(entry.Line, "x"), dropped+entry.Dropped
			}
			if (dropped > 0) != test.wantDropped {
				t.Errorf("%d of %d bytes are kept, %d dropped", kept, test.bytes, dropped)
			}
			if text := guest.Console(log.String()); dropped == 0 && (kept != test.bytes || !strings.HasSuffix(text, "last words\n")) {
				t.Errorf("%d of %d bytes are kept; it ends in %q", kept, test.bytes, text[max(0, len(text)-80):])
			}
			// While one text is written, another may be queued.
			if most := 2*maxQueued + readSize; kept > most {
				t.Errorf("%d bytes are kept, want at most %d", kept, most)
			}
		})
	}
}

// consoleEntry is a log entry of the console.
type consoleEntry struct {
	Message string    `json:"msg"`
	Level   string    `json:"level"`
	Time    time.Time `json:"time"`
	Line    string    `json:"line"`
	Partial bool      `json:"partial"`
	Dropped int       `json:"dropped"`
}

// parseEntries parses a log of the console. It checks that each line is an entry of the console, and short enough that container runtimes do not split it.
func parseEntries(t *testing.T, log string) (all []consoleEntry) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry consoleEntry
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&entry); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if entry.Message != "serial console" || entry.Level != "INFO" || entry.Time.IsZero() || len(line) > 16<<10 || !strings.HasSuffix(line, "}\n") {
			t.Errorf("%q is no entry of the console", line)
		}
		all = append(all, entry)
	}
	return all
}

// TestConsoleForgesNothing: whatever a guest writes, each line of the log is an entry of the console, and has the guest's text.
func TestConsoleForgesNothing(t *testing.T) {
	const forged = `{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"the guest has ended","reason":"Crashed"}`
	long := strings.Repeat("y", 3*maxPartBytes+5)
	for _, test := range []struct {
		why, text, want string
	}{
		{"a line", "login: \r\n", "login: \n"},
		{"an entry of the launcher", forged + "\n", forged + "\n"},
		{"an entry after a carriage return", "x\r" + forged + "\r\n", "x\r" + forged + "\n"},
		{"the end of the text's own field", `","line":"","msg":"other"}` + "\n", `","line":"","msg":"other"}` + "\n"},
		{"separators of lines of other kinds", "a\u2028b\u2029c\u0085d\v\fe\n", "a\u2028b\u2029c\u0085d\v\fe\n"},
		{"escapes of terminals", "\x1b[2J\x1b]0;title\x07\x00\x7f\n", "\x1b[2J\x1b]0;title\x07\x00\x7f\n"},
		{"bytes that are no text", "\xff\xfe\xc3(\n", "\ufffd\ufffd\ufffd(\n"},
		{"a line of several entries", long + "\n", long + "\n"},
		{"a line of exactly one entry", long[:maxPartBytes] + "\n" + "z\n", long[:maxPartBytes] + "\nz\n"},
		{"a character across entries", strings.Repeat("y", maxPartBytes-1) + "日本\n", strings.Repeat("y", maxPartBytes-1) + "日本\n"},
		{"escapes in a long line", strings.Repeat("\x01", 2*maxPartBytes) + "\n", strings.Repeat("\x01", 2*maxPartBytes) + "\n"},
		{"empty lines", "\n\r\n\n", "\n\n\n"},
		{"no last line end", "a\nb", "a\nb\n"},
	} {
		var log bytes.Buffer
		e := newConsoleLog(&log)
		for i := range len(test.text) { // QEMU writes single characters
			e.addText([]byte{test.text[i]}, 0)
		}
		e.writeLastLine()
		parseEntries(t, log.String())
		if diff := cmp.Diff(test.want, guest.Console(log.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
		var whole bytes.Buffer
		e = newConsoleLog(&whole)
		e.addText([]byte(test.text), 0)
		e.writeLastLine()
		if diff := cmp.Diff(test.want, guest.Console(whole.String())); diff != "" {
			t.Errorf("%s, at once (-want +got):\n%s", test.why, diff)
		}
	}
}

// TestPrompt: the beginning of a line is logged when the guest pauses, and the rest of the line follows as an entry.
func TestPrompt(t *testing.T) {
	log := &stuckLog{freed: make(chan struct{})}
	close(log.freed)
	c, qemu := openTestConsole(t, log)
	if _, err := io.WriteString(qemu, "login: "); err != nil {
		t.Fatal(err)
	}
	if !poll.Until(time.Minute, func() bool { return strings.Contains(log.String(), "login: ") }) {
		t.Fatalf("the log is %q", log.String())
	}
	if _, err := io.WriteString(qemu, "root\n"); err != nil {
		t.Fatal(err)
	}
	c.drainAndClose()
	want := []consoleEntry{{Line: "login: ", Partial: true}, {Line: "root"}}
	bare := parseEntries(t, log.String())
	for i := range bare {
		bare[i].Message, bare[i].Level, bare[i].Time = "", "", time.Time{}
	}
	if diff := cmp.Diff(want, bare); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConsoleFlood: a guest that writes endlessly gets a bounded share of the node's disk, and the log counts the bytes that it lacks.
func TestConsoleFlood(t *testing.T) {
	for why, line := range map[string]string{"empty lines": "\n", "no line end": strings.Repeat("x", 1024), "lines": strings.Repeat("x", 80) + "\n"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			e := newConsoleLog(&log)
			const seconds = 20
			wrote, amount := 0, 1<<20
			if line == "\n" {
				amount = 1 << 16 // its entry is a hundred times as long
			}
			for range seconds {
				for range amount / len(line) {
					e.addText([]byte(line), 0)
					wrote += len(line)
				}
				time.Sleep(time.Second)
			}
			e.writeLastLine()
			kept, dropped := 0, 0
			for _, entry := range parseEntries(t, log.String()) {
				kept, dropped = kept+len(entry.Line), dropped+entry.Dropped
			}
			if most := 2 * (logBurstBytes + seconds*logBytesPerSecond); log.Len() > most || log.Len() < logBurstBytes {
				t.Errorf("%s: the log has %d bytes of %d, want %d to %d", why, log.Len(), wrote, logBurstBytes, most)
			}
			if lines := strings.Count(line, "\n") * seconds * (amount / len(line)); kept+dropped != wrote-lines {
				t.Errorf("%s: %d bytes are in the log and %d dropped, of %d", why, kept, dropped, wrote-lines)
			}
		})
	}
}
