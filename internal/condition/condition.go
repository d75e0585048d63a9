// Package condition bounds what Kiln writes into conditions and events. What they say is made of what users wrote: an error list of
// megabytes would make a status that the API server refuses, and a status that cannot be written tells nobody anything.
package condition

import (
	"fmt"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// longestMessage is an eighth of what Kubernetes' own type of conditions takes, in bytes: an object has several.
	longestMessage = 4 << 10
	// longestNote is what the API server takes as the note of an event, in bytes.
	longestNote = 1 << 10
)

// Message is a text as the message of a condition: cut between characters, with the number of bytes that are left out.
func Message(text string) string { return cut(text, longestMessage) }

// Note is a text as the note of an event.
func Note(text string) string { return cut(text, longestNote) }

// Mistakes are errors as the message of a condition: as many as there is room for, and the number of the others. What is said twice
// counts once.
func Mistakes(errs field.ErrorList) string {
	var told []string
	size, seen := 0, sets.New[string]()
	for i, err := range errs {
		text := err.Error()
		if seen.Has(text) {
			continue
		}
		if size += len(text) + len(", "); i > 0 && size > longestMessage-len(", and 1000000 more") {
			told = append(told, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		seen.Insert(text)
		told = append(told, text)
	}
	return Message(strings.Join(told, ", "))
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const rest = "… and %d bytes more"
	end := most - len(fmt.Sprintf(rest, len(text)))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + fmt.Sprintf(rest, len(text)-end)
}

// Oversized tells whether an object was refused because it is too large: for the API server, or for etcd, whose error has no
// reason of its own.
func Oversized(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}
