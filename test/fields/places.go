package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// placesOfLeaf lists where a leaf stands in a spec, such as volumes[3].configMap.name, in the order of variants.
func placesOfLeaf(spec map[string]any, leaf string) (found []string) {
	return placesOf(spec, strings.Split(strings.ReplaceAll(leaf, "{}", ""), "."), "")
}

func placesOf(node map[string]any, path []string, at string) (found []string) {
	name, list := strings.CutSuffix(path[0], "[]")
	value, there := node[name]
	if !there {
		return nil
	}
	at = strings.TrimPrefix(at+"."+name, ".")
	if len(path) == 1 {
		return []string{at}
	}
	items, _ := value.([]any)
	if !list {
		items = []any{value}
	}
	for i, item := range items {
		here := at
		if list {
			here += "[" + strconv.Itoa(i) + "]"
		}
		if child, ok := item.(map[string]any); ok {
			found = append(found, placesOf(child, path[1:], here)...)
		}
	}
	return found
}

// isWithin reports whether one path is another, or lies below it.
func isWithin(path, ancestor string) bool {
	rest, found := strings.CutPrefix(path, ancestor)
	return found && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}

// areRelated reports whether a verdict about one path concerns the other.
func areRelated(a, b string) bool { return isWithin(a, b) || isWithin(b, a) }

// parentPath returns the path of what contains a path, empty for the first field.
func parentPath(path string) string {
	i := strings.LastIndexAny(path, ".[")
	return path[:max(i, 0)]
}

// asJSONObject returns a spec as an untyped JSON object.
func asJSONObject(spec v1.VirtualMachineInstanceSpec) (object map[string]any, err error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(raw, &object)
}

// withoutPath returns a VMI without what stands at a path; nil if nothing does.
func withoutPath(vmi *v1.VirtualMachineInstance, at string) (*v1.VirtualMachineInstance, error) {
	spec, err := asJSONObject(vmi.Spec)
	if err != nil {
		return nil, err
	}
	shorter, found := removePath(spec, strings.FieldsFunc(at, func(r rune) bool { return strings.ContainsRune(".[]", r) }))
	if !found {
		return nil, nil
	}
	raw, err := json.Marshal(shorter)
	if err != nil {
		return nil, err
	}
	less := vmi.DeepCopy()
	less.Spec = v1.VirtualMachineInstanceSpec{}
	return less, json.Unmarshal(raw, &less.Spec)
}

func removePath(node any, path []string) (any, bool) {
	switch node := node.(type) {
	case map[string]any:
		child, there := node[path[0]]
		if !there {
			return node, false
		}
		node = maps.Clone(node)
		if len(path) == 1 {
			delete(node, path[0])
			return node, true
		}
		less, found := removePath(child, path[1:])
		node[path[0]] = less
		return node, found
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(node) {
			return node, false
		}
		node = slices.Clone(node)
		if len(path) == 1 {
			return slices.Delete(node, i, i+1), true
		}
		less, found := removePath(node[i], path[1:])
		node[i] = less
		return node, found
	}
	return node, false
}

// otherText is another legal value of leaves whose values are few.
var otherText = map[string]string{"fieldPath": "metadata.namespace", "resource": "requests.cpu"}

// changeValue changes a leaf's value to another one of its type.
func changeValue(holder map[string]any, name string) bool {
	switch value := holder[name].(type) {
	case bool:
		holder[name] = !value
	case float64:
		holder[name] = value + 1
	case string:
		holder[name] = cmp.Or(otherText[name], value+"x")
	default:
		return false
	}
	return true
}

// variantsReplaced returns variants with other values. It leaves out a value that its type does not have, such as a quantity.
func variantsReplaced(vmi *v1.VirtualMachineInstance, leaf string) []*v1.VirtualMachineInstance {
	found, err := variantsOf(vmi, leaf, changeValue)
	if err != nil {
		return nil
	}
	return found
}

// pathOf is the path of an error or of a warning, below spec.
func pathOf(text string) string {
	at, _, _ := strings.Cut(strings.TrimPrefix(text, "spec."), " ")
	return strings.TrimSuffix(at, ":")
}

// must is for what the samples of a test cannot fail by.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("a sample cannot be changed: %v", err))
	}
}
