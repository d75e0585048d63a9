package domainimport

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// repairer removes from a VM what admission or the renderer refuses. A domain may have what this cluster does not allow, such as a size of huge pages, and all
// else of the domain can be imported.
type repairer struct {
	// object is the VM that the user gets. judged is the VM that is judged and rendered: it also lacks what the cluster must allow first.
	object, judged *unstructured.Unstructured
	notes          []string
	// left are the reasons why devices of the domain are not in the VM, by their keys, such as disk.vda.
	left map[string]string
}

// needsCluster are fields without which a guest loses data at each stop. They stay in the VM: admission says what the cluster lacks when the VM is created.
var needsCluster = map[string]bool{
	"spec.template.spec.domain.devices.tpm.persistent":             true,
	"spec.template.spec.domain.firmware.bootloader.efi.persistent": true,
}

// repair removes the fields of the errors. It returns false if no field can be removed.
// Errors name elements of lists by their places before the first one is removed. So the targets of all errors are found first, each is removed once, and
// the last element of a list goes first.
func (r *repairer) repair(errs field.ErrorList) (removed bool) {
	var targets []target
	var unplaced []string
	for _, err := range errs {
		path, kept := targetOf(r.judged.Object, err.Field), needsCluster[err.Field]
		most := tooMany.FindStringSubmatch(err.Detail)
		switch {
		case most != nil:
			number, _ := strconv.Atoi(most[1]) // digits of a limit
			removed = r.truncate(err.Field, number, err.ErrorBody()) || removed
			continue
		case strings.HasPrefix(err.Detail, noPlace):
			unplaced = append(unplaced, fmt.Sprint(err.BadValue))
			continue
		case len(path) == 0:
			continue
		}
		if slices.ContainsFunc(targets, func(t target) bool { return slices.Equal(t.path, path) }) {
			continue
		}
		targets = append(targets, target{path, err.ErrorBody()})
		if removed = true; kept {
			r.notes = append(r.notes, "the VM has "+err.Field+", which this cluster does not allow yet: "+err.ErrorBody())
		} else if r.deviceOf(path) == "" && !isAttachment(path) {
			r.notes = append(r.notes, "the VM does not have "+err.Field+": "+err.ErrorBody())
		}
	}
	slices.SortStableFunc(targets, func(a, b target) int { return comparePaths(b.path, a.path) })
	for _, t := range targets {
		if needsCluster[pathText(t.path)] {
			removeAt(r.judged.Object, t.path)
			continue
		}
		r.removeTarget(t)
	}
	return r.freePlaces(unplaced) || removed
}

// target is a field or an element of a list that must be removed, as steps of its path, with the reason.
type target struct {
	path   []string
	reason string
}

// step is a name or an index of a path.
var step = regexp.MustCompile(`[^.\[\]]+|\[[0-9]+\]`)

// pathText joins the steps of a path.
func pathText(steps []string) string { return strings.ReplaceAll(strings.Join(steps, "."), ".[", "[") }

// comparePaths orders paths. Elements of one list are ordered by their indexes, and an element comes before its fields.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(x, y string) int {
		if i, errX := indexOf(x); errX == nil {
			if j, errY := indexOf(y); errY == nil {
				return cmp.Compare(i, j)
			}
		}
		return cmp.Compare(x, y)
	})
}

// indexOf returns the index of a step such as '[3]'.
func indexOf(step string) (int, error) { return strconv.Atoi(strings.Trim(step, "[]")) }

// isSection reports whether a path is a section of the VM, about which there are errors without a field of their own.
func isSection(path string) bool {
	return !strings.HasPrefix(path, "spec.template.spec.") || strings.HasPrefix("spec.template.spec.domain.devices", path)
}

// targetOf returns the path of the field of an error, or of the nearest element of a list that the field is in if the field is not there, or if the element
// has no meaning without it. It returns nil if nothing can be removed.
func targetOf(object map[string]any, path string) []string {
	if isSection(path) {
		return nil
	}
	steps := step.FindAllString(path, -1)
	node, element := any(object), 0
	for i, name := range steps {
		last := i == len(steps)-1
		switch at := node.(type) {
		case map[string]any:
			child, found := at[name]
			if !found || last && (name == "name" || name == "type" || name == "bus") {
				return steps[:element]
			}
			node = child
		case []any:
			index, err := indexOf(name)
			if err != nil || index >= len(at) {
				return nil
			}
			node, element = at[index], i+1
		default:
			return steps[:element]
		}
	}
	return steps
}

// removeAt removes a field or an element of a list, which must be there.
func removeAt(object map[string]any, path []string) {
	parent := path[:len(path)-1]
	if index, err := indexOf(path[len(path)-1]); err == nil && strings.HasPrefix(path[len(path)-1], "[") {
		list, _ := valueAt(object, parent).([]any)
		if holder, is := valueAt(object, parent[:len(parent)-1]).(map[string]any); is && index < len(list) {
			holder[parent[len(parent)-1]] = slices.Delete(slices.Clone(list), index, index+1)
		}
		return
	}
	if holder, is := valueAt(object, parent).(map[string]any); is {
		delete(holder, path[len(path)-1])
	}
}

// valueAt returns the value at a path; nil if the path does not exist.
func valueAt(object map[string]any, path []string) any {
	node := any(object)
	for _, name := range path {
		switch at := node.(type) {
		case map[string]any:
			node = at[name]
		case []any:
			index, err := indexOf(name)
			if err != nil || index >= len(at) {
				return nil
			}
			node = at[index]
		default:
			return nil
		}
	}
	return node
}
