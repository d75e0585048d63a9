package guest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// The guest's output shares a log with the launcher's messages. Therefore the output is a JSON field of entries whose message the launcher uses for nothing
// else: no byte from the guest can end a line of the log or begin an entry.

const (
	// consoleMessage is the message of each entry. Field 'line' has the guest's text, 'partial' is true if the line continues in the next entry, and 'dropped'
	// is the number of bytes that the log lacks.
	consoleMessage = "serial console"
	// maxPartBytes is the maximum number of bytes of a line in one entry. Even if each byte becomes an escape of six bytes, the entry fits into the 16 KiB that
	// container runtimes write at once.
	maxPartBytes = 2 << 10
	// partialLineDelay is the pause of the guest after which an unfinished line is written.
	partialLineDelay = time.Second
	// logBytesPerSecond and logBurstBytes limit the entries, because a node keeps the logs of all its pods on one disk. A kernel's boot messages are shorter
	// than the burst.
	logBytesPerSecond, logBurstBytes = 64 << 10, 1 << 20
)

// consoleLog writes the console of a guest as log entries. After a failed write it writes nothing more.
type consoleLog struct {
	out    io.Writer
	failed error
	budget *rate.Limiter
	// line is the unwritten part of a line, and dropped the number of bytes that were dropped before it.
	line    []byte
	dropped int
}

func newConsoleLog(out io.Writer) *consoleLog {
	return &consoleLog{out: out, budget: rate.NewLimiter(logBytesPerSecond, logBurstBytes)}
}

// addText logs the lines of a text, and keeps its unfinished last line. dropped is the number of bytes that were dropped after the text.
func (e *consoleLog) addText(text []byte, dropped int) {
	for len(text) > 0 {
		part, rest, ended := bytes.Cut(text, []byte("\n"))
		if free := maxPartBytes - len(e.line); len(part) > free {
			part, rest, ended = text[:free], text[free:], false
		}
		e.line, text = append(e.line, part...), rest
		switch {
		case ended:
			e.writeLine(false)
		case len(e.line) == maxPartBytes:
			e.writeLine(true)
		}
	}
	if dropped > 0 {
		e.writeLine(true)
		e.dropped += dropped
	}
}

// writeLine writes the kept text as a line. If the line is partial, incomplete UTF-8 at its end is kept for the next entry.
func (e *consoleLog) writeLine(partial bool) {
	line, rest := e.line, 0
	if partial {
		rest = incompleteRuneBytes(line)
		if line = line[:len(line)-rest]; len(line) == 0 {
			return
		}
	} else {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	fields := []slog.Attr{slog.String("line", string(line))}
	if partial {
		fields = append(fields, slog.Bool("partial", true))
	}
	entry := encodeEntry(fields)
	if e.budget.AllowN(time.Now(), len(entry)) {
		e.writeDropped()
		e.writeEntry(entry)
	} else {
		e.dropped += len(line)
	}
	e.line = append(e.line[:0], e.line[len(e.line)-rest:]...)
}

// incompleteRuneBytes returns the number of bytes at the end of a text that begin a UTF-8 character without completing it.
func incompleteRuneBytes(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// writeLastLine writes the unfinished last line and the number of dropped bytes.
func (e *consoleLog) writeLastLine() {
	if len(e.line) > 0 {
		e.writeLine(false)
	}
	e.writeDropped()
}

// writeDropped writes the number of bytes dropped since the last such entry, if it is not 0.
func (e *consoleLog) writeDropped() {
	if e.dropped > 0 {
		e.writeEntry(encodeEntry([]slog.Attr{slog.Int("dropped", e.dropped)}))
		e.dropped = 0
	}
}

func (e *consoleLog) writeEntry(entry []byte) {
	if e.failed == nil {
		_, e.failed = e.out.Write(entry)
	}
}

// encodeEntry returns an entry as one line of JSON, in the format of the launcher's other entries.
func encodeEntry(fields []slog.Attr) []byte {
	var out bytes.Buffer
	record := slog.NewRecord(time.Now(), slog.LevelInfo, consoleMessage, 0)
	record.AddAttrs(fields...)
	_ = slog.NewJSONHandler(&out, nil).Handle(context.Background(), record) // a buffer takes every write
	return out.Bytes()
}
