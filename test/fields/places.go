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

// places lists where a leaf stands in a spec, such as volumes[3].configMap.name, in the order of variants.
func places(spec map[string]any, leaf string) (found []string) {
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

// within reports whether one path is another, or lies below it.
func within(path, ancestor string) bool {
	rest, found := strings.CutPrefix(path, ancestor)
	return found && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}

// related reports whether a verdict about one path concerns the other.
func related(a, b string) bool { return within(a, b) || within(b, a) }

// parent is the path of what contains a path, empty for the first field.
func parent(path string) string {
	i := strings.LastIndexAny(path, ".[")
	return path[:max(i, 0)]
}

// general is a spec as JSON has it.
func general(spec v1.VirtualMachineInstanceSpec) (object map[string]any, err error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(raw, &object)
}

// cut returns a VMI without what stands at a path; nil if nothing does.
func cut(vmi *v1.VirtualMachineInstance, at string) (*v1.VirtualMachineInstance, error) {
	spec, err := general(vmi.Spec)
	if err != nil {
		return nil, err
	}
	shorter, found := removed(spec, strings.FieldsFunc(at, func(r rune) bool { return strings.ContainsRune(".[]", r) }))
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

func removed(node any, path []string) (any, bool) {
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
		less, found := removed(child, path[1:])
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
		less, found := removed(node[i], path[1:])
		node[i] = less
		return node, found
	}
	return node, false
}

// otherText is another legal value of leaves whose values are few.
var otherText = map[string]string{"fieldPath": "metadata.namespace", "resource": "requests.cpu"}

// other changes a leaf's value to another one of its type.
func other(holder map[string]any, name string) bool {
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

// replaced is variants with other values. A value that its type does not have, such as a quantity, is left out.
func replaced(vmi *v1.VirtualMachineInstance, leaf string) []*v1.VirtualMachineInstance {
	found, err := variants(vmi, leaf, other)
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
