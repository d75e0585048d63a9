package corpus

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// mutator changes objects into their neighbours: what a user might have written instead. It works on JSON, so that absent,
// null and empty are three things, as they are to the webhook.
type mutator struct {
	*rand.Rand
	donors donors
}

// donors are the values that stand at each place in known objects, by path without indices, such as 'spec.volumes[]'. A
// neighbour is mostly made of parts that mean something elsewhere: random text would be refused before it proves anything.
type donors struct {
	values map[string][]any
	keys   map[string][]string // of the maps at a path
}

// learn adds every value of an object, itself included.
func (d donors) learn(path string, value any) {
	d.values[path] = append(d.values[path], value)
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !slices.Contains(d.keys[path], key) {
				d.keys[path] = append(d.keys[path], key)
			}
			d.learn(path+"."+key, value[key])
		}
	case []any:
		for _, item := range value {
			d.learn(path+"[]", item)
		}
	}
}

// place is a value in an object, with what it takes to put another there.
type place struct {
	path  string
	value any
	put   func(any)
	// more puts a value next to this one, in a list; drop takes the value away.
	more func(any)
	drop func()
}

// places lists the values of an object without itself. Lists are replaced through their holder, whose put is given.
func places(path string, value any, put func(any)) (found []place) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			set := func(other any) { value[key] = other }
			found = append(found, place{path: path + "." + key, value: value[key], put: set, drop: func() { delete(value, key) }})
			found = append(found, places(path+"."+key, value[key], set)...)
		}
	case []any:
		for i := range value {
			set := func(other any) { value[i] = other }
			found = append(found, place{path: path + "[]", value: value[i], put: set,
				more: func(other any) { put(slices.Insert(slices.Clone(value), i, other)) },
				drop: func() { put(slices.Delete(slices.Clone(value), i, i+1)) }})
			found = append(found, places(path+"[]", value[i], set)...)
		}
	}
	return found
}

// mutate changes an object in place at one to four places. name is the donors' name of its root.
func (m mutator) mutate(name string, object map[string]any) {
	for range 1 + m.IntN(4) {
		found := places(name, object, func(any) {})
		if len(found) == 0 {
			m.graft(name, object)
			return
		}
		m.change(found[m.IntN(len(found))])
	}
}

func (m mutator) change(p place) {
	holder, isMap := p.value.(map[string]any)
	switch n := m.IntN(10); {
	case n == 0:
		p.drop()
	case n == 1 && p.more != nil:
		p.more(copied(p.value))
	case n <= 3 && p.more != nil && len(m.donors.values[p.path]) > 0:
		p.more(m.donor(p.path))
	case n <= 6 && isMap:
		m.graft(p.path, holder)
	case n <= 8 && len(m.donors.values[p.path]) > 0:
		p.put(m.donor(p.path))
	default:
		p.put(m.altered(p.value))
	}
}

// graft gives a map another key that maps at this path have elsewhere.
func (m mutator) graft(path string, holder map[string]any) {
	if keys := m.donors.keys[path]; len(keys) > 0 {
		key := keys[m.IntN(len(keys))]
		holder[key] = m.donor(path + "." + key)
	}
}

func (m mutator) donor(path string) any {
	known := m.donors.values[path]
	return copied(known[m.IntN(len(known))])
}

// texts are what people and machines write into fields of any meaning.
var texts = []string{"", "a", "-1", "0", "1Gi", "512Mi", "100m", "1e3", "virtio", "scsi", "../x", "/x", "A b", "ü", "0000:00:00.0",
	"02:00:00:00:00:aa", strings.Repeat("x", 300)}

// altered is another value of the same JSON type, or null.
func (m mutator) altered(value any) any {
	if m.IntN(12) == 0 {
		return nil
	}
	switch value := value.(type) {
	case bool:
		return !value
	case float64:
		return []float64{0, 1, 2, 3, -1, value + 1, value * 2, 65536, 1 << 31, 1 << 40}[m.IntN(10)]
	case string:
		if m.IntN(2) == 0 {
			return value + strconv.Itoa(m.IntN(3))
		}
		return texts[m.IntN(len(texts))]
	case []any:
		return []any{}
	}
	return map[string]any{}
}

// copied is a deep copy of JSON.
func copied(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, item := range value {
			out[key] = copied(item)
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, item := range value {
			out = append(out, copied(item))
		}
		return out
	}
	return value
}

// generic is a value as JSON has it.
func generic(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(raw, &out)
}
