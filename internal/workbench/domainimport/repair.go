package domainimport

import (
	"regexp"
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
}

// needsCluster are fields without which a guest loses data at each stop. They stay in the VM: admission says what the cluster lacks when the VM is created.
var needsCluster = map[string]bool{
	"spec.template.spec.domain.devices.tpm.persistent":             true,
	"spec.template.spec.domain.firmware.bootloader.efi.persistent": true,
}

// repair removes the fields of the errors. It returns false if no field can be removed.
func (r *repairer) repair(errs field.ErrorList) (removed bool) {
	for _, err := range errs {
		if !removeField(r.judged.Object, err.Field) {
			continue
		}
		removed = true
		if needsCluster[err.Field] {
			r.notes = append(r.notes, "the VM has "+err.Field+", which this cluster does not allow yet: "+err.ErrorBody())
			continue
		}
		removeField(r.object.Object, err.Field)
		r.notes = append(r.notes, "the VM does not have "+err.Field+": "+err.ErrorBody())
	}
	return removed
}

// step is a name or an index of a path.
var step = regexp.MustCompile(`[^.\[\]]+|\[[0-9]+\]`)

// removeField removes the field of a path, or the nearest element of a list that it is in if the path ends at a field without which the element has no meaning.
// It returns false if there is no such field.
func removeField(object map[string]any, path string) bool {
	steps := step.FindAllString(path, -1)
	return len(steps) > 0 && !isSection(path) && removeStep(object, steps, func() bool { return false })
}

// isSection reports whether a path is a section of the VM, about which there are errors without a field of their own.
func isSection(path string) bool {
	return !strings.HasPrefix(path, "spec.template.spec.") || strings.HasPrefix("spec.template.spec.domain.devices", path)
}

// removeStep follows the steps from a node. removeElement removes the element of a list that the node is in.
func removeStep(node any, steps []string, removeElement func() bool) bool {
	switch node := node.(type) {
	case map[string]any:
		child, found := node[steps[0]]
		switch {
		case !found:
			return removeElement()
		case len(steps) == 1 && (steps[0] == "name" || steps[0] == "type" || steps[0] == "bus"):
			return removeElement()
		case len(steps) == 1:
			delete(node, steps[0])
			return true
		}
		list, isList := child.([]any)
		if !isList {
			return removeStep(child, steps[1:], removeElement)
		}
		index, err := strconv.Atoi(strings.Trim(steps[1], "[]"))
		if err != nil || index >= len(list) {
			return false
		}
		remove := func() bool {
			node[steps[0]] = append(list[:index:index], list[index+1:]...)
			return true
		}
		if len(steps) == 2 {
			return remove()
		}
		return removeStep(list[index], steps[2:], remove)
	}
	return removeElement()
}
