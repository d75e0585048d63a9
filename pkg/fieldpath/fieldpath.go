// Package fieldpath reads the paths of fields in errors and explanations, such as spec.domain.devices.disks[3].name and metadata.labels[example.com/tier].
// field.Path in apimachinery writes paths in the same form, but does not read them.
//
// The form is ambiguous: field.Path escapes nothing, so that the key 'a].b[c' of a map reads as two keys and a field. Such keys are not legal in labels and
// annotations, but an error may name what a tenant wrote. Parse therefore accepts any text and never fails.
package fieldpath

import (
	"strconv"
	"strings"
)

// Step is one step of a path.
type Step struct {
	// Text is the name of a field or, of an element, the index or key without its brackets.
	Text string
	// Element reports whether the step leads to an element of a list or map.
	Element bool
}

// String returns the step as it stands in a path, without the dot before the name of a field.
func (s Step) String() string {
	if s.Element {
		return "[" + s.Text + "]"
	}
	return s.Text
}

// Index returns the index of an element of a list. ok is false for a field, and for a key that is not an index as field.Path writes it.
func (s Step) Index() (index int, ok bool) {
	index, err := strconv.Atoi(s.Text)
	return index, s.Element && err == nil && index >= 0 && strconv.Itoa(index) == s.Text
}

// Parse returns the steps of a path, in time linear to its length. A key ends at the first ']' behind which a path can go on: before '.',
// before '[' or at the end. An opening bracket without such an end belongs to a name.
func Parse(path string) (steps []Step) {
	last := len(path) - 1
	for last >= 0 && !endsKey(path, last) {
		last--
	}
	for at := 0; at < len(path); {
		end := at
		if path[at] == '[' && at < last {
			for end++; !endsKey(path, end); end++ {
			}
			steps = append(steps, Step{Text: path[at+1 : end], Element: true})
			at = end + 1
			continue
		}
		if path[at] == '.' && len(steps) > 0 {
			at, end = at+1, end+1
		}
		for end < len(path) && path[end] != '.' && (path[end] != '[' || end > last) {
			end++
		}
		steps = append(steps, Step{Text: path[at:end]})
		at = end
	}
	return steps
}

// endsKey reports whether a path can go on behind a byte as behind a closing bracket.
func endsKey(path string, at int) bool {
	return path[at] == ']' && (at+1 == len(path) || path[at+1] == '.' || path[at+1] == '[')
}

// Join returns the path of steps, as field.Path writes it.
func Join(steps []Step) string {
	var path strings.Builder
	for i, step := range steps {
		if i > 0 && !step.Element {
			path.WriteByte('.')
		}
		path.WriteString(step.String())
	}
	return path.String()
}

// Below returns the part of a path below a field: nothing for the field itself, else text that begins with '.' or '['. ok is false if the path does not lead to
// the field or below it, such as 'cpus' for the field 'cpu'.
func Below(path, field string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, field)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
