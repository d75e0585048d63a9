// Package condition sets conditions, and bounds the messages of conditions and events. Messages contain text of users: with an error list of megabytes,
// the API server would refuse the status, and the user would see no reason at all.
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
	// longestMessage is an eighth of longestWhole, in bytes: an object has several conditions.
	longestMessage = 4 << 10
	// longestWhole is the API server's maximum for the message of a metav1.Condition, in characters. It refuses a status with a longer one.
	longestWhole = 32 << 10
	// longestNote is the API server's maximum for the note of an event, in bytes.
	longestNote = 1 << 10
)

// Message returns the text as the message of a condition. A longer text is cut between characters and ends with the number of bytes that are left out.
func Message(text string) string { return truncateBytes(text, longestMessage) }

// WholeMessage returns the text as the message of the only long condition of an object. It cuts the text only at the API server's maximum.
func WholeMessage(text string) string { return fmt.Sprintf("%.*s", longestWhole, text) }

// Note returns the text as the note of an event. It cuts a longer text as Message does.
func Note(text string) string { return truncateBytes(text, longestNote) }

// Mistakes returns the message of a condition for errors: as many errors as fit, and the number of the others. Equal errors appear once.
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

// truncateBytes cuts a text to a number of bytes, between characters.
func truncateBytes(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	const rest = "… and %d bytes more"
	kept := shorten.Prefix(text, longest-len(fmt.Sprintf(rest, len(text))))
	return kept + fmt.Sprintf(rest, len(text)-len(kept))
}

// Oversized reports whether an object was refused because it is too large for the API server or for etcd. The error of etcd has no reason, so its text is
// compared.
func Oversized(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}

// OneLine returns a text, which a tenant may have written, on one line and without control characters.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
}
