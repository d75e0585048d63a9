// Package patch writes the RFC 6902 patch that turns one API object into another. General differs marshal both objects: they lose the fields of a newer API,
// and write zero values such as 'creationTimestamp: null'.
package patch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/kilnvm/kiln/pkg/internal/leaves"
	"github.com/tidwall/gjson"
)

// operation is one operation of an RFC 6902 patch. Value is nil only for 'remove': omitempty drops a nil interface and keeps false, 0 and "", which
// are values behind a pointer.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Write returns the RFC 6902 patch that turns raw into after; nil if nothing changed. before is a pointer to the typed form of raw, and after a pointer to the
// same type; it returns an error for other types. The patch touches only what differs: fields of a newer API that the Go types do not know survive, and no zero
// value is written. Parents that raw lacks are created with their first child. The API server's json-patch v4 and the strict v5 both accept the patch.
func Write(raw []byte, before, after any) ([]byte, error) {
	var found changes
	old, now := reflect.ValueOf(before), reflect.ValueOf(after)
	if old.Type() != now.Type() || old.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("patch needs two pointers of one type, got %T and %T", before, after)
	}
	found.compareValues(make([]string, 0, depth), shapes[old.Type().Elem()], old.Elem(), now.Elem())
	if len(found) == 0 {
		return nil, nil
	}
	document := anchors{"": gjson.ParseBytes(raw).Raw}
	operations := make([]operation, 0, len(found))
	added := map[string]map[string]any{} // objects that this patch creates, by path
	for _, c := range found {
		at := jsonPointer(c.path)
		missing, parent := document.firstMissing(c.path, at)
		if missing < 0 {
			operations = append(operations, c.asOperation(at))
			continue
		}
		if c.removed {
			continue // nothing there to remove
		}
		at = parent
		object, seen := added[at]
		if !seen {
			object = map[string]any{}
			added[at] = object
			operations = append(operations, operation{Op: "add", Path: at, Value: object})
		}
		setBelow(object, c.path[missing+1:], c.value)
	}
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

// change is a difference at a path of the typed object.
type change struct {
	path []string
	// value is nil if the field is removed.
	value   any
	removed bool
	// present means that the key had a value before: the operation is then 'replace' instead of 'add'.
	present bool
}

// asOperation returns the line of a change whose parent exists in the raw object.
func (c change) asOperation(at string) operation {
	switch {
	case c.removed:
		return operation{Op: "remove", Path: at}
	case c.present:
		return operation{Op: "replace", Path: at, Value: c.value}
	}
	return operation{Op: "add", Path: at, Value: c.value}
}

// setBelow sets a value below an object that the patch adds, and creates the objects in between.
func setBelow(object map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		child, ok := object[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			object[key] = child
		}
		object = child
	}
	object[path[len(path)-1]] = value
}

// escaper escapes a key for a JSON pointer (RFC 6901, section 3): annotation keys have slashes.
var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// jsonPointer returns the RFC 6901 form of a path.
func jsonPointer(path []string) string {
	var b strings.Builder
	length := 0
	for _, key := range path {
		length += len("/") + len(key)
	}
	b.Grow(length)
	for _, key := range path {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(key))
	}
	return b.String()
}

// changes are differences in the order of the type's fields, so that the patch for two objects is always the same.
type changes []change

// addChange adds a field that differs. A field that becomes zero is removed, because the API's JSON omits zero values.
func (c *changes) addChange(path []string, old, now reflect.Value) {
	gone := now.IsZero()
	if gone && old.IsZero() {
		return
	}
	entry := change{path: append([]string(nil), path...), removed: gone, present: !old.IsZero()}
	if !gone {
		entry.value = now.Interface()
	}
	*c = append(*c, entry)
}

// depth is the length of the deepest usual path. A deeper path costs a copy.
const depth = 24

// compareValues adds the differences of two values of one type. It does not keep path.
func (c *changes) compareValues(path []string, is *shape, old, now reflect.Value) {
	if is.equal != nil {
		if !is.equal(old, now) {
			c.addChange(path, old, now)
		}
		return
	}
	switch old.Kind() {
	case reflect.Struct:
		for _, f := range is.fields {
			if f.Name == "" {
				c.compareValues(path, f.inlinedShape(), inlinedStruct(old.Field(f.Index)), inlinedStruct(now.Field(f.Index)))
			} else {
				c.compareValues(append(path, f.Name), f.is, old.Field(f.Index), now.Field(f.Index))
			}
		}
	case reflect.Pointer:
		if old.Pointer() == now.Pointer() {
			return // most of a VM: an object that admission changes shares the unchanged values with the old one
		}
		if old.IsNil() || now.IsNil() {
			c.addChange(path, old, now)
			return
		}
		c.comparePointed(path, is.element, old.Elem(), now.Elem())
	case reflect.Slice:
		c.compareSlices(path, is.element, old, now)
	case reflect.Map:
		c.compareMaps(path, old, now)
	default:
		if !old.Equal(now) {
			c.addChange(path, old, now)
		}
	}
}

// inlinedStruct returns an inlined struct, whose fields JSON has among the fields of its parent. The Go field may be a pointer to it.
func inlinedStruct(v reflect.Value) reflect.Value {
	switch {
	case v.Kind() != reflect.Pointer:
		return v
	case v.IsNil():
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// comparePointed compares the values behind two pointers. A zero value behind a pointer is set, not absent.
func (c *changes) comparePointed(path []string, is *shape, old, now reflect.Value) {
	if old.Kind() == reflect.Struct && is.equal == nil {
		c.compareValues(path, is, old, now)
	} else if !sameShaped(is, old, now) {
		*c = append(*c, change{path: append([]string(nil), path...), value: now.Interface(), present: true})
	}
}

// compareSlices adds changes of elements and appended elements one by one. A list that got shorter is replaced as a whole, because the values do not show which
// elements are gone.
func (c *changes) compareSlices(path []string, element *shape, old, now reflect.Value) {
	if old.Len() == 0 || now.Len() < old.Len() {
		if now.Len() > 0 || old.Len() > 0 {
			c.addChange(path, old, now)
		}
		return
	}
	if old.Pointer() == now.Pointer() && old.Len() == now.Len() {
		return
	}
	for i := range now.Len() {
		at := append(path, strconv.Itoa(i))
		if i < old.Len() {
			c.compareValues(at, element, old.Index(i), now.Index(i))
			continue
		}
		*c = append(*c, change{path: append([]string(nil), at...), value: now.Index(i).Interface()})
	}
}

// compareMaps adds each key that differs, in sorted order: with the order of a Go map, patches would differ from run to run.
func (c *changes) compareMaps(path []string, old, now reflect.Value) {
	if old.Len() == 0 || now.Len() == 0 {
		if old.Len() != now.Len() {
			c.addChange(path, old, now)
		}
		return
	}
	if sameMap(old, now) {
		return
	}
	for _, key := range leaves.SortedKeys(old, now) {
		was, is := old.MapIndex(key), now.MapIndex(key)
		entry := change{path: append(append([]string(nil), path...), key.String()), present: was.IsValid()}
		switch {
		case !is.IsValid():
			entry.removed = true
		case was.IsValid() && sameValue(was, is):
			continue
		default:
			entry.value = is.Interface()
		}
		*c = append(*c, entry)
	}
}
