// Package message shortens values of objects for messages: a tenant or an administrator may have written a megabyte.
package message

import (
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/pkg/shorten"
)

// maxText is the number of bytes of a value, or of a list of names, in a message.
const maxText = 1024

// Short cuts a text to maxText bytes.
func Short(text string) string { return shorten.Bytes(text, maxText) }

// Value returns a value as JSON, cut to maxText bytes.
func Value(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		raw = fmt.Append(nil, value)
	}
	return Short(string(raw))
}

// Names lists names in single quotes, in a text of about maxText bytes. list must not be empty.
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
