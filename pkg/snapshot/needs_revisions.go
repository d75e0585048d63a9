package snapshot

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// namedRevision is the name of a revision, and the field that has the name.
type namedRevision struct {
	name string
	path *field.Path
}

// revisionsOf returns the names of the revisions from which a VM is built: the names in revisionName and in its pins, even in keys of pins that this release
// does not know.
func revisionsOf(vm *v1.VirtualMachine) (all []namedRevision) {
	add := func(name string, at *field.Path) {
		if name != "" && name != v1alpha1.PinNone && !strings.Contains(name, "/") {
			all = append(all, namedRevision{name, at})
		}
	}
	if m := vm.Spec.Instancetype; m != nil {
		add(m.RevisionName, field.NewPath("spec", "instancetype", "revisionName"))
	}
	if m := vm.Spec.Preference; m != nil {
		add(m.RevisionName, field.NewPath("spec", "preference", "revisionName"))
	}
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPins)
	pins := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(vm.Annotations[v1alpha1.AnnotationPins]), &pins) != nil {
		return all
	}
	for _, key := range slices.Sorted(maps.Keys(pins)) {
		var list []string
		if name := ""; json.Unmarshal(pins[key], &name) == nil {
			list = []string{name}
		} else if json.Unmarshal(pins[key], &list) != nil {
			continue
		}
		for _, name := range list {
			add(name, at.Child(key))
		}
	}
	return all
}
