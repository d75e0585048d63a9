// Package filled finds the source that filled a field of a VMI. Steps note the fields that they fill in a Log. When an error has to name the source of a field,
// the field is looked up. Noting a field costs only an append of two pointers, because admission notes the fields of every VM and refuses few VMs.
package filled

import (
	"cmp"
	"reflect"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
)

// Log contains the fields that were filled, in order. A nil Log notes nothing. A Log must not be copied after its first use.
type Log struct {
	entries []entry
	buffer  [usual]entry
}

// entry is one field.
type entry struct {
	// at is a pointer into the VMI. An element of a map has no address: at is then its path.
	at any
	// from is the field of the source, either of the type to which at points or a pointer to it. It is nil if the field has no fields inside. A field inside at
	// belongs to the entry only if from has it: what a later step adds to an object belongs to that step.
	from any
}

// usual is the number of fields that an instancetype and a preference fill in a small VMI. A log with more entries allocates again.
const usual = 32

// New returns an empty log with a buffer for the usual number of fields. It allocates once.
func New() *Log {
	l := &Log{}
	l.entries = l.buffer[:0]
	return l
}

// Note adds an entry for a field that was filled. at is a pointer to the field, and from its value in the source, which must not change later. The field must
// keep its address: entries for elements of a list are lost when append moves the elements, unless Moved is called.
func (l *Log) Note(at, from any) {
	if l != nil {
		l.entries = append(l.entries, entry{at, from})
	}
}

// Moved moves the entries for elements of a list to a copy of the list that begins with the same elements. It does nothing if both have the same address, as
// most lists do. It looks only at the entries, because elements have hundreds of fields, and few of them are noted.
func (l *Log) Moved(from, to reflect.Value) {
	if l.Len() == 0 || from.Len() == 0 || from.Pointer() == to.Pointer() {
		return
	}
	start, size := from.Pointer(), from.Type().Elem().Size()
	for i, e := range l.entries {
		at := reflect.ValueOf(e.at)
		if at.Kind() != reflect.Pointer || at.Pointer() < start || at.Pointer() >= start+size*uintptr(from.Len()) {
			continue
		}
		element := int((at.Pointer() - start) / size)
		l.entries[i].at = cmp.Or(counterpartOf(from.Index(element), to.Index(element), e.at), e.at)
	}
}

// counterpartOf returns a pointer to the field of to that corresponds to the field of from at which at points; nil if at points to no field of from. Two fields
// can begin at one address, with different types. Pointers are not followed, because their values do not move.
func counterpartOf(from, to reflect.Value, at any) any {
	if from.Addr().Interface() == at {
		return to.Addr().Interface()
	}
	if from.Kind() != reflect.Struct || leaves.Whole(from.Type()) {
		return nil
	}
	for _, f := range leaves.Fields(from.Type()) {
		if found := counterpartOf(from.Field(f.Index), to.Field(f.Index), at); found != nil {
			return found
		}
	}
	return nil
}

// Key adds an entry for a key of the map at a path.
func (l *Log) Key(path, key string) {
	if l != nil {
		l.entries = append(l.entries, entry{at: path + "[" + key + "]"})
	}
}

// Leaves adds an entry for each leaf of a value that was set at a path.
func (l *Log) Leaves(path string, value any) {
	if l == nil {
		return
	}
	for _, leaf := range leaves.Append(nil, path, value) {
		l.entries = append(l.entries, entry{at: leaf.Path})
	}
}

// Len returns the number of entries; 0 for a nil Log.
func (l *Log) Len() int {
	if l == nil {
		return 0
	}
	return len(l.entries)
}
