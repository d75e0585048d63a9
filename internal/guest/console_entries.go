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

// What a guest writes stands in one log with what the launcher says. So it is in a field of JSON, in entries with a message that the launcher has nowhere else:
// no byte of the guest ends a line of the log or begins an entry.

const (
	// consoleMessage is the message of each entry. The guest's text is in field 'line'; 'partial' is true where the line goes on in the next entry; 'dropped'
	// is a number of bytes that the log does not have.
	consoleMessage = "serial console"
	// longestPart is the most bytes of a line in one entry. With an escape of six bytes for each it fits the 16 KiB that container runtimes write at once.
	longestPart = 2 << 10
	// inLine is how long a guest pauses in a line until its beginning is written.
	inLine = time.Second
	// perSecond and burst bound the bytes of entries: a node keeps the logs of all its pods on one disk. A kernel boots with less than the burst.
	perSecond, burst = 64 << 10, 1 << 20
)

// entries writes the console of a guest as log entries. After an error of the log it writes nothing more.
type entries struct {
	out    io.Writer
	failed error
	budget *rate.Limiter
	// line is the part of a line that is not written yet; lost is how many bytes were dropped before it.
	line []byte
	lost int
}

func newEntries(out io.Writer) *entries {
	return &entries{out: out, budget: rate.NewLimiter(perSecond, burst)}
}

// add adds a text, and the number of bytes that were dropped after it.
func (e *entries) add(text []byte, lost int) {
	for len(text) > 0 {
		part, rest, ended := bytes.Cut(text, []byte("\n"))
		if room := longestPart - len(e.line); len(part) > room {
			part, rest, ended = text[:room], text[room:], false
		}
		e.line, text = append(e.line, part...), rest
		switch {
		case ended:
			e.endLine(false)
		case len(e.line) == longestPart:
			e.endLine(true)
		}
	}
	if lost > 0 {
		e.endLine(true)
		e.lost += lost
	}
}

// endLine writes what there is of a line. A partial line keeps the beginning of a character that it ends in.
func (e *entries) endLine(partial bool) {
	line, rest := e.line, 0
	if partial {
		rest = incomplete(line)
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
	entry := encode(fields)
	if e.budget.AllowN(time.Now(), len(entry)) {
		e.note()
		e.write(entry)
	} else {
		e.lost += len(line)
	}
	e.line = append(e.line[:0], e.line[len(e.line)-rest:]...)
}

// incomplete returns how many bytes at the end of a text are the beginning of a character.
func incomplete(text []byte) int {
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

// end writes the last line, and how much was dropped.
func (e *entries) end() {
	if len(e.line) > 0 {
		e.endLine(false)
	}
	e.note()
}

// note writes how much was dropped.
func (e *entries) note() {
	if e.lost > 0 {
		e.write(encode([]slog.Attr{slog.Int("dropped", e.lost)}))
		e.lost = 0
	}
}

func (e *entries) write(entry []byte) {
	if e.failed == nil {
		_, e.failed = e.out.Write(entry)
	}
}

// encode returns an entry as one line of JSON, in the form of the launcher's own.
func encode(fields []slog.Attr) []byte {
	var out bytes.Buffer
	record := slog.NewRecord(time.Now(), slog.LevelInfo, consoleMessage, 0)
	record.AddAttrs(fields...)
	_ = slog.NewJSONHandler(&out, nil).Handle(context.Background(), record) // a buffer takes every write
	return out.Bytes()
}
