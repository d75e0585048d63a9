package abi

import (
	"encoding/xml"
	"reflect"
	"strconv"

	"libvirt.org/go/libvirtxml"
)

// The canonical text of a domain is for digests and comparisons: every field that is set, by its name in libvirtxml, in the
// order of the type. Fields that are not set leave no trace, so that a newer libvirtxml, which knows more elements, gives an
// old domain the same text. It is not XML because writing that costs four times as much as all of rendering.

// layout is what the writer must know of a type.
type layout struct {
	fields []slot
	// element of a pointer or list.
	element *layout
}

type slot struct {
	index int
	name  string
	is    *layout
}

// layouts holds every type of a domain. It is complete at start and never written again.
var layouts = layoutsOf(reflect.TypeFor[libvirtxml.Domain]())

func layoutsOf(root reflect.Type) map[reflect.Type]*layout {
	known := map[reflect.Type]*layout{}
	describe(root, known)
	return known
}

func describe(t reflect.Type, known map[reflect.Type]*layout) *layout {
	if l := known[t]; l != nil {
		return l
	}
	l := &layout{}
	known[t] = l
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		l.element = describe(t.Elem(), known)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			// The name of the element is set when a domain was read, and not when it was made.
			if f.Type != reflect.TypeFor[xml.Name]() {
				l.fields = append(l.fields, slot{i, f.Name, describe(f.Type, known)})
			}
		}
	}
	return l
}

// canonical appends the text of a value, which must be a part of a domain or a pointer to one.
func canonical(out []byte, part any) []byte {
	v := reflect.ValueOf(part)
	if !v.IsValid() || v.IsZero() {
		return out
	}
	v = reflect.Indirect(v)
	return layouts[v.Type()].write(out, v)
}

// usualSize is room for the text of a guest of thirty disks, in bytes. It fits on the stack.
const usualSize = 32 << 10

// same reports whether the canonical texts of two parts are equal, without writing them.
func same[T any](a, b *T) bool {
	return a == b || a != nil && b != nil && layouts[reflect.TypeFor[T]()].same(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func (l *layout) same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		// The backend copies what it changes, so that most of two domains is one and the same.
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && l.element.same(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !l.element.same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for _, f := range l.fields {
			if !f.is.same(a.Field(f.index), b.Field(f.index)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func (l *layout) write(out []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer:
		return l.element.write(out, v.Elem())
	case reflect.Slice:
		out = append(out, '[')
		for i := range v.Len() {
			out = append(l.element.write(out, v.Index(i)), ',')
		}
		return append(out, ']')
	case reflect.Struct:
		out = append(out, '{')
		for _, f := range l.fields {
			field := v.Field(f.index)
			if field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0 {
				continue
			}
			out = append(append(out, f.name...), ':')
			out = append(f.is.write(out, field), ' ')
		}
		return append(out, '}')
	case reflect.String:
		// The length first, so that no text can pass for the end of another.
		out = append(strconv.AppendInt(out, int64(v.Len()), 10), '\'')
		return append(out, v.String()...)
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(out, v.Uint(), 10)
	}
	// Checked by a test over all types of libvirtxml: a kind that is left out would be a change that nobody sees.
	panic("no canonical text of " + v.Type().String())
}
