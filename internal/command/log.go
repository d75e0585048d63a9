package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/pkg/shorten"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// longestValue is the maximal size of a value of a log entry in bytes, because errors quote texts of tenants. The stack of a panic has some kilobytes.
const longestValue = 8 << 10

// newLogHandler returns a handler that writes one line of JSON for each entry. JSON has an escape for every byte that could end a line or begin another entry.
func newLogHandler(to io.Writer, from slog.Level) slog.Handler {
	return uniqueKeys{Handler: slog.NewJSONHandler(to, &slog.HandlerOptions{Level: from, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch value := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(shortenValue(value))
		case error:
			a.Value = slog.StringValue(shortenValue(value.Error()))
		}
		return a
	}})}
}

// uniqueKeys writes each key of an entry only once. Libraries repeat keys of their logger, such as cert-controller's 'name', and readers of JSON refuse such an
// entry or keep one of both values. A repeated key with another value gets a number.
type uniqueKeys struct {
	slog.Handler
	// given are the attributes that the handler adds to each entry, in its group.
	given []slog.Attr
}

// WithAttrs adds the attributes that the handler does not have.
func (h uniqueKeys) WithAttrs(attrs []slog.Attr) slog.Handler {
	added := h.withoutRepeated(attrs)
	return uniqueKeys{h.Handler.WithAttrs(added), slices.Concat(h.given, added)}
}

// WithGroup begins a nested object, which may repeat keys of the outer one.
func (h uniqueKeys) WithGroup(name string) slog.Handler {
	return uniqueKeys{Handler: h.Handler.WithGroup(name)}
}

// Handle writes an entry. Errors that are normal in a cluster, see isNormal, are logged at level debug: libraries log them, and retry.
func (h uniqueKeys) Handle(ctx context.Context, entry slog.Record) error {
	var attrs []slog.Attr
	entry.Attrs(func(a slog.Attr) bool {
		if err, is := a.Value.Any().(error); is && entry.Level >= slog.LevelError && isNormal(err) {
			entry.Level = slog.LevelDebug
		}
		attrs = append(attrs, a)
		return true
	})
	if !h.Enabled(ctx, entry.Level) {
		return nil
	}
	written := slog.NewRecord(entry.Time, entry.Level, entry.Message, entry.PC)
	written.AddAttrs(h.withoutRepeated(attrs)...)
	return h.Handler.Handle(ctx, written)
}

// isNormal reports whether an error is a conflict with another write, or a create in a namespace that is being deleted.
func isNormal(err error) bool {
	return apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// withoutRepeated returns the attributes that the handler does not have yet. If it has another value of a key, the key gets a number.
func (h uniqueKeys) withoutRepeated(attrs []slog.Attr) (left []slog.Attr) {
	value := func(key string) *slog.Value {
		for _, list := range [][]slog.Attr{h.given, left} {
			if i := slices.IndexFunc(list, func(a slog.Attr) bool { return a.Key == key }); i >= 0 {
				return &list[i].Value
			}
		}
		return nil
	}
	for _, a := range attrs {
		key, same := a.Key, false
		for n := 2; ; n++ {
			other := value(a.Key)
			if other == nil {
				break
			}
			if same = fmt.Sprint(other.Any()) == fmt.Sprint(a.Value.Any()); same {
				break
			}
			a.Key = key + strconv.Itoa(n)
		}
		if !same {
			left = append(left, a)
		}
	}
	return left
}

// shortenValue cuts a text after at most longestValue bytes, between characters, and appends how many bytes are missing.
func shortenValue(text string) string {
	if len(text) <= longestValue {
		return text
	}
	kept := shorten.Prefix(text, longestValue)
	return fmt.Sprintf("%s… and %d bytes more", kept, len(text)-len(kept))
}
