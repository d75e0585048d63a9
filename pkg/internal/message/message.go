// Package message bounds what messages quote of objects: a tenant or an administrator may have written a megabyte.
package message

import (
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/pkg/shorten"
)

// maxText is how many bytes of a value, or of a list of names, a message holds.
const maxText = 1024

// Short returns the beginning of a text.
func Short(text string) string { return shorten.Bytes(text, maxText) }

// Value returns a value as JSON, shortened.
func Value(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		raw = fmt.Append(nil, value)
	}
	return Short(string(raw))
}

// Names lists names in single quotes, in a text of about MaxText bytes. There is one at least.
func Names[T any](list []T, name func(T) string) string {
	text := "'" + name(list[0]) + "'"
	for i, item := range list[1:] {
		if len(text) > maxText {
			return fmt.Sprintf("%s and %d more", text, len(list)-1-i)
		}
		text += ", '" + name(item) + "'"
	}
	return text
}
