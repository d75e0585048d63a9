package domainimport

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// leavesOf returns the fields of the spec of a VMI that have no fields below them, by their paths, such as spec.domain.devices.disks[0].cache. An empty object
// is a leaf.
func leavesOf(vmi *v1.VirtualMachineInstance) (map[string]any, error) {
	raw, err := json.Marshal(vmi.Spec)
	if err != nil {
		return nil, err
	}
	var spec any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, err
	}
	return leavesIn("spec", spec), nil
}

// leavesIn returns the fields of a node of JSON that have no fields below them, by their paths. path is the path of the node.
func leavesIn(path string, node any) map[string]any {
	leaves := map[string]any{}
	var visit func(path string, node any)
	visit = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for name, child := range node {
				visit(path+"."+name, child)
			}
			if len(node) == 0 {
				leaves[path] = node
			}
		case []any:
			for i, child := range node {
				visit(path+"["+strconv.Itoa(i)+"]", child)
			}
		default:
			leaves[path] = node
		}
	}
	visit(path, node)
	return leaves
}

// differingLeaves returns the paths of the leaves that are not equal, sorted.
func differingLeaves(a, b map[string]any) (paths []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if fmt.Sprint(a[path]) != fmt.Sprint(b[path]) {
			paths = append(paths, path)
		}
	}
	return paths
}

// setLeaf sets a leaf of the template of a VM. It does not add elements of lists, and returns false if the path has one that the VM does not have.
func setLeaf(vm map[string]any, path string, value any) bool {
	node := any(vm)
	steps := step.FindAllString("spec.template."+path, -1)
	for i, name := range steps {
		last := i == len(steps)-1
		switch at := node.(type) {
		case map[string]any:
			if last {
				at[name] = value
				return true
			}
			if at[name] == nil && strings.HasPrefix(steps[i+1], "[") {
				return false
			}
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			node = at[name]
		case []any:
			index, err := strconv.Atoi(strings.Trim(name, "[]"))
			if err != nil || index >= len(at) || last {
				return false
			}
			node = at[index]
		default:
			return false
		}
	}
	return false
}
