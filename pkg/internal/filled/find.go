package filled

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/fieldpath"
	"github.com/kilnvm/kiln/pkg/internal/leaves"
)

// Find returns the index of the entry that filled the first leaf with an entry at or below a path; None if no such leaf has an entry. object is a pointer to
// the part of the VMI at the path root. Find walks the whole object, which only admissions with errors need.
func (l *Log) Find(object any, root, path string) int {
	s := search{log: l, noted: make(map[any]int, l.Len()), path: path}
	if l != nil {
		for i, e := range l.entries {
			s.noted[e.at] = i
		}
	}
	return s.searchBelow(root, reflect.ValueOf(object).Elem(), enclosing{entry: None})
}

// FindObject returns the index of the entry that set the object at a path, whatever filled its fields; None if no source has the object.
func (l *Log) FindObject(object any, root, path string) int {
	s := search{log: l, noted: make(map[any]int, l.Len()), path: path, object: true}
	if l != nil {
		for i, e := range l.entries {
			s.noted[e.at] = i
		}
	}
	return s.searchBelow(root, reflect.ValueOf(object).Elem(), enclosing{entry: None})
}

// None is returned in place of the index of an entry.
const None = -1

// search is one walk over an object.
type search struct {
	log   *Log
	noted map[any]int
	path  string
	// object means that the object at the path is searched for, and not its leaves.
	object bool
}

// enclosing is the innermost noted field around a value, and the value of the source at the same path.
type enclosing struct {
	entry int
	// bounded means that only leaves that from has belong to the entry. Other leaves were filled by another source.
	bounded bool
	from    reflect.Value
}

// enterValue returns the entry of a value that was noted, else in, the entry around it. Elements of maps have no address.
func (s *search) enterValue(v reflect.Value, in enclosing) enclosing {
	if !v.CanAddr() {
		return in
	}
	i, found := s.noted[v.Addr().Interface()]
	if !found {
		return in
	}
	from := reflect.ValueOf(s.log.entries[i].from)
	if from.IsValid() && from.Type() != v.Type() {
		from = from.Elem() // a pointer to the source's field
	}
	return enclosing{entry: i, bounded: from.IsValid(), from: from}
}

func (s *search) searchBelow(at string, v reflect.Value, in enclosing) int {
	if !strings.HasPrefix(s.path, at) && !strings.HasPrefix(at, s.path) {
		return None
	}
	in = s.enterValue(v, in)
	if s.object && at == s.path && v.Kind() == reflect.Struct {
		if !in.bounded || !in.from.IsValid() {
			return None
		}
		return in.entry
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return None
		}
		return s.searchElement(at, v.Elem(), in.elem())
	case leaves.Whole(v.Type()):
		return s.leafEntry(at, v, in)
	case v.Kind() == reflect.Struct:
		return s.searchFields(at, v, in)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if found := s.searchElement(at+"["+strconv.Itoa(i)+"]", v.Index(i), in.index(i)); found != None {
				return found
			}
		}
		return None
	case v.Kind() == reflect.Map:
		for _, key := range leaves.SortedKeys(v, v) {
			if found := s.searchElement(at+"["+key.String()+"]", v.MapIndex(key), in.key(key)); found != None {
				return found
			}
		}
		return None
	}
	return s.leafEntry(at, v, in)
}

// searchFields searches a struct in the order of its type, which is the order in which explanations list leaves.
func (s *search) searchFields(at string, v reflect.Value, in enclosing) int {
	for _, f := range leaves.Fields(v.Type()) {
		below, part, inner := at, v.Field(f.Index), in.field(f.Index)
		if f.Name != "" {
			below += "." + f.Name
		}
		if found := s.searchBelow(below, part, inner); found != None {
			return found
		}
	}
	return None
}

// searchElement searches the value behind a pointer, or an element of a list or map. A zero value counts as set, and a struct without set fields as an empty
// object.
func (s *search) searchElement(at string, v reflect.Value, in enclosing) int {
	in = s.enterValue(v, in)
	if v.Kind() == reflect.Struct && !leaves.Whole(v.Type()) && !v.IsZero() {
		return s.searchBelow(at, v, in)
	}
	if in.bounded && !in.from.IsValid() {
		in.entry = None
	}
	return s.entryAt(at, in)
}

// leafEntry returns the entry of a value without fields. A zero value is not set.
func (s *search) leafEntry(at string, v reflect.Value, in enclosing) int {
	if v.IsZero() {
		return None
	}
	if in.bounded && (!in.from.IsValid() || in.from.IsZero()) {
		in.entry = None
	}
	return s.entryAt(at, in)
}

// entryAt returns the entry of a leaf; None if the leaf is not at or below the path.
func (s *search) entryAt(at string, in enclosing) int {
	if _, below := fieldpath.Below(at, s.path); !below {
		return None
	}
	if i, noted := s.noted[at]; noted {
		return i
	}
	return in.entry
}

func (in enclosing) elem() enclosing {
	if in.from.IsValid() {
		in.from = in.from.Elem() // of a nil pointer: not valid
	}
	return in
}

func (in enclosing) field(i int) enclosing {
	if in.from.IsValid() {
		in.from = in.from.Field(i)
	}
	return in
}

func (in enclosing) index(i int) enclosing {
	if !in.from.IsValid() || i >= in.from.Len() {
		in.from = reflect.Value{}
		return in
	}
	in.from = in.from.Index(i)
	return in
}

func (in enclosing) key(key reflect.Value) enclosing {
	if in.from.IsValid() {
		in.from = in.from.MapIndex(key)
	}
	return in
}
