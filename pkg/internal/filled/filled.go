// Package filled finds the source that filled a field of a VMI. Steps note the fields that they fill; an error that has to name the source of one
// looks it up later. To note a field costs an append of two pointers: admission does it for every VM, and few VMs are refused.
package filled

import (
	"cmp"
	"reflect"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
)

// Log holds the fields that were filled, in order. A nil Log notes nothing. It must not be copied once it is in use.
type Log struct {
	entries []entry
	room    [usual]entry
}

// entry is one field.
type entry struct {
	// at is a pointer into the VMI. Keys of maps have no address: for one of them it is its path.
	at any
	// from is the source's own field, of the type that at points to or a pointer to it; nil where at has nothing inside. It bounds the entry: what a
	// later step puts into an object belongs to that step.
	from any
}

// usual is how many fields an instancetype and a preference fill of a small VMI. A log of more allocates.
const usual = 32

// New returns an empty log with room for the usual number of fields: one allocation.
func New() *Log {
	l := &Log{}
	l.entries = l.room[:0]
	return l
}

// Note takes a pointer to a field that was filled, and what it was filled with, which must not be changed later. The field must stay where it is:
// a list that grows moves its elements, and their entries are lost.
func (l *Log) Note(at, from any) {
	if l != nil {
		l.entries = append(l.entries, entry{at, from})
	}
}

// Moved follows the elements of a list to another list that begins with the same elements: what was noted of them counts for the new ones. Most lists
// stay where they are. Of one that moved, only the entries inside are looked at: it has hundreds of fields, and few of them are noted.
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
		l.entries[i].at = cmp.Or(counterpart(from.Index(element), to.Index(element), e.at), e.at)
	}
}

// counterpart returns the address in a copy of the field that has an address in a value; nil where no field has it. Two fields can begin at one address:
// their types differ. What pointers lead to has not moved.
func counterpart(from, to reflect.Value, at any) any {
	if from.Addr().Interface() == at {
		return to.Addr().Interface()
	}
	if from.Kind() != reflect.Struct || leaves.Whole(from.Type()) {
		return nil
	}
	for _, f := range leaves.Fields(from.Type()) {
		if found := counterpart(from.Field(f.Index), to.Field(f.Index), at); found != nil {
			return found
		}
	}
	return nil
}

// Key notes a key of the map at a path.
func (l *Log) Key(path, key string) {
	if l != nil {
		l.entries = append(l.entries, entry{at: path + "[" + key + "]"})
	}
}

// Leaves notes each leaf of a value that was put at a path.
func (l *Log) Leaves(path string, value any) {
	if l == nil {
		return
	}
	for _, leaf := range leaves.Append(nil, path, value) {
		l.entries = append(l.entries, entry{at: leaf.Path})
	}
}

// Len is the number of entries so far.
func (l *Log) Len() int {
	if l == nil {
		return 0
	}
	return len(l.entries)
}
