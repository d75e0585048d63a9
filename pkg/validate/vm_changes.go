package validate

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: spec.template, spec.instancetype and spec.preference of a VM whose VMI exists.
// Such changes wait until the VM is restarted, but for those that the guest gets while it runs (updates_live.go). Condition RestartRequired names the ones
// that wait; running and runStrategy act at once.

// ChangeWarnings returns one warning with the names of the fields that an update of a VM changes while its VMI exists, or none. A create,
// whose old is nil, and a VM without a VMI (status.created) have none.
func ChangeWarnings(vm, old *v1.VirtualMachine) []string {
	if old == nil || !old.Status.Created || vm.Spec.Template == nil || old.Spec.Template == nil {
		return nil
	}
	var changed []string
	for _, reference := range []struct {
		name     string
		now, was any
	}{{"instancetype", vm.Spec.Instancetype, old.Spec.Instancetype}, {"preference", vm.Spec.Preference, old.Spec.Preference}} {
		if !equality.Semantic.DeepEqual(reference.now, reference.was) {
			changed = append(changed, reference.name)
		}
	}
	now, was := vm.Spec.Template, old.Spec.Template
	if !equality.Semantic.DeepEqual(now.ObjectMeta.Labels, was.ObjectMeta.Labels) ||
		!equality.Semantic.DeepEqual(now.ObjectMeta.Annotations, was.ObjectMeta.Annotations) {
		changed = append(changed, "template metadata")
	}
	changed = append(changed, ChangedFields(now.Spec, was.Spec)...)
	if len(changed) == 0 {
		return nil
	}
	return []string{listed("changes take effect live if possible, else when the VM is restarted: ", changed)}
}

// ChangedFields returns the JSON names of the fields in which two VMIs differ, such as 'domain.cpu' and 'volumes'.
func ChangedFields(now, was v1.VirtualMachineInstanceSpec) []string {
	return differing("", reflect.ValueOf(now), reflect.ValueOf(was))
}

// listed names as many as a warning has room for, and counts the others.
func listed(text string, names []string) string {
	const rest = len(" and 99 more")
	for i, name := range names {
		if i > 0 && len(text)+len(", ")+len(name)+rest > MaxWarning {
			return fmt.Sprintf("%s and %d more", text, len(names)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}

// differing returns the JSON names of the fields in which two structs of one type differ. Reflection finds fields that the API gains later,
// too.
func differing(prefix string, now, was reflect.Value) (names []string) {
	for i := range now.NumField() {
		name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("json"), ",")
		a, b := now.Field(i), was.Field(i)
		if equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		switch a.Interface().(type) {
		case v1.DomainSpec, v1.Devices: // that 'domain' has changed says too little
			names = append(names, differing(prefix+name+".", a, b)...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}
