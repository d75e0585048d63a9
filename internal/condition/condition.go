// Package condition writes conditions, and bounds the messages of conditions and events. They contain what users wrote: an error list of megabytes
// would make a status that the API server refuses, and the user would see no reason at all.
package condition

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/kilnvm/kiln/pkg/shorten"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// longestMessage is an eighth of the maximum of metav1.Condition, in bytes: an object has several conditions.
	longestMessage = 4 << 10
	// longestNote is the API server's maximum for the note of an event, in bytes.
	longestNote = 1 << 10
)

// Message returns a text bounded to the length of a condition's message. A longer text is cut between characters and ends with the number of
// bytes left out.
func Message(text string) string { return cut(text, longestMessage) }

// Note returns a text bounded to the length of an event's note, like Message.
func Note(text string) string { return cut(text, longestNote) }

// Mistakes returns errors as the message of a condition: as many as fit, and the number of the others. Equal errors appear once.
func Mistakes(errs field.ErrorList) string {
	var texts []string
	size, seen := 0, sets.New[string]()
	for i, err := range errs {
		text := err.Error()
		if seen.Has(text) {
			continue
		}
		if size += len(text) + len(", "); i > 0 && size > longestMessage-len(", and 1000000 more") {
			texts = append(texts, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		seen.Insert(text)
		texts = append(texts, text)
	}
	return Message(strings.Join(texts, ", "))
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const rest = "… and %d bytes more"
	kept := shorten.Prefix(text, most-len(fmt.Sprintf(rest, len(text))))
	return kept + fmt.Sprintf(rest, len(text)-len(kept))
}

// Oversized reports whether an object was refused because it is too large for the API server or for etcd, whose error has no reason of its own.
func Oversized(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}

// OneLine returns a text that a tenant may have written on one line and without control characters.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
}
