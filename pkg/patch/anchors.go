package patch

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// anchors has the JSON in the raw object at each path that was looked up, by JSON pointer.
type anchors map[string]string

// firstMissing returns the index and the pointer of the topmost parent of path that is not an object or array in raw; -1 if all parents are. at is the
// pointer of path itself.
func (a anchors) firstMissing(path []string, at string) (index int, parent string) {
	here, end := a[""], 0
	for i, key := range path[:len(path)-1] {
		start := end
		end += len("/") + len(escaper.Replace(key))
		next, known := a[at[:end]]
		if !known {
			if strings.HasPrefix(here, "[") {
				next = a.arrayElement(here, at[:start], at[:end])
			} else {
				next = gjson.Get(here, gjson.Escape(key)).Raw
			}
			a[at[:end]] = next
		}
		if !strings.HasPrefix(next, "{") && !strings.HasPrefix(next, "[") {
			return i, at[:end]
		}
		here = next
	}
	return -1, ""
}

// arrayElement returns the element with the pointer at of the array with the pointer parent. It reads all elements at once: a search from the first element on
// for each of them would cost the square of their number, and a manifest can have a hundred thousand.
func (a anchors) arrayElement(array, parent, at string) string {
	// The pointer of an element with an empty name, which no array has, marks an array that has been read.
	read := parent + "/"
	if _, seen := a[read]; !seen {
		a[read] = ""
		i := 0
		gjson.Parse(array).ForEach(func(_, element gjson.Result) bool {
			a[read+strconv.Itoa(i)] = element.Raw
			i++
			return true
		})
	}
	return a[at]
}
