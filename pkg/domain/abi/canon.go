package abi

import (
	"encoding/xml"
	"reflect"
	"slices"
	"strconv"

	"libvirt.org/go/libvirtxml"
)

// The canonical text of a domain is for digests and comparisons: every field that is set, by its name in libvirtxml, in the
// order of the type. Fields that are not set leave no trace, so that a newer libvirtxml, which knows more elements, gives an
// old domain the same text. It is not XML because writing that costs four times as much as all of rendering.
//
// The text is never stored, but its digest is, in records. A change of this format makes every recorded VMI look changed.

// layout is the fields of a struct type, or the element type of a pointer or slice.
type layout struct {
	fields []slot
	// element of a pointer or list.
	element *layout
	// direct marks the types that writeDirectly has a way for.
	direct bool
}

// slot is a field of a struct: its index and its name in libvirtxml.
type slot struct {
	index  int
	name   string
	layout *layout
}

// layouts holds every type of a domain. It is complete at start and never written again.
var layouts = layoutsOf(reflect.TypeFor[libvirtxml.Domain]())

func layoutsOf(root reflect.Type) map[reflect.Type]*layout {
	known := map[reflect.Type]*layout{}
	addLayout(root, known)
	return known
}

// addLayout adds a type and all types in it. A type is in known before its fields are, because it may contain itself, such as a chain of backing images.
func addLayout(t reflect.Type, known map[reflect.Type]*layout) *layout {
	if l := known[t]; l != nil {
		return l
	}
	l := &layout{direct: slices.Contains(directly, t)}
	known[t] = l
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		l.element = addLayout(t.Elem(), known)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			// XMLName is set in a domain that was parsed and unset in one that was rendered.
			if f.Type != reflect.TypeFor[xml.Name]() {
				l.fields = append(l.fields, slot{i, f.Name, addLayout(f.Type, known)})
			}
		}
	}
	return l
}

// appendCanonical appends the canonical text of a value, which must be a part of a domain or a pointer to one.
func appendCanonical(out []byte, part any) []byte {
	v := reflect.ValueOf(part)
	if !v.IsValid() || v.IsZero() {
		return out
	}
	v = reflect.Indirect(v)
	return layouts[v.Type()].appendValue(out, v)
}

// sameText reports whether the canonical texts of two parts are equal, without writing them.
func sameText[T any](a, b *T) bool {
	return a == b || a != nil && b != nil && layouts[reflect.TypeFor[T]()].sameValue(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

// sameValue compares two values as appendValue would write them: field by field, and slices by length and elements.
func (l *layout) sameValue(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		// The backend copies what it changes and shares the rest, so that most pointers of the two domains are equal.
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && l.element.sameValue(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !l.element.sameValue(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range l.fields {
			f := &l.fields[i]
			if !f.layout.sameValue(a.Field(f.index), b.Field(f.index)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// appendValue appends the text of a value. An empty slice counts as unset: libvirtxml reads some as nil and others as empty.
func (l *layout) appendValue(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		return l.element.appendValue(out, v.Elem())
	case reflect.Slice:
		out = append(out, '[')
		for i := range v.Len() {
			out = append(l.element.appendValue(out, v.Index(i)), ',')
		}
		return append(out, ']')
	case reflect.Struct:
		if l.direct {
			if out, written := writeDirectly(out, v.Addr().Interface()); written {
				return out
			}
		}
		out = append(out, '{')
		for i := range l.fields {
			f := &l.fields[i]
			field := v.Field(f.index)
			if isUnset(field) {
				continue
			}
			out = append(append(out, f.name...), ':')
			out = append(f.layout.appendValue(out, field), ' ')
		}
		return append(out, '}')
	case reflect.String:
		return writeString(out, v.String())
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(out, v.Uint(), 10)
	}
	// A test covers all types of libvirtxml: a kind that were left out here would be a change of hardware that no digest shows.
	panic("no canonical text of " + v.Type().String())
}

// isUnset is IsZero, which costs more for these kinds, and true for an empty slice.
func isUnset(field reflect.Value) bool {
	switch field.Kind() {
	case reflect.Pointer:
		return field.IsNil()
	case reflect.String, reflect.Slice:
		return field.Len() == 0
	}
	return field.IsZero()
}

// writeString has the length first, so that no string can be written that reads as the end of one field and the start of another: tenants choose
// strings.
func writeString(out []byte, text string) []byte {
	return append(append(strconv.AppendInt(out, int64(len(text)), 10), '\''), text...)
}
