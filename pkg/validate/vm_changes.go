package validate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: spec.template, spec.instancetype and spec.preference of a VM whose VMI exists.
// Such changes wait until the VM is restarted, except the changes that the guest gets while it runs (updates_live.go). Condition RestartRequired names the
// changes that wait; running and runStrategy act at once.

// ChangeWarnings returns warnings with the names of the fields that an update of a VM changes while its VMI exists, and when the guest gets the changes. There
// are no warnings on create, when old is nil, and for a VM without a VMI (status.created).
func ChangeWarnings(vm, old *v1.VirtualMachine, limits config.Limits) []string {
	if old == nil || !old.Status.Created || vm.Spec.Template == nil || old.Spec.Template == nil {
		return nil
	}
	changed := changedBeside(vm, old)
	now, was := vm.Spec.Template, old.Spec.Template
	if limits.KubeVirtGuests {
		rollout := ByKubeVirt(&now.Spec, &was.Spec, vm.Spec.UpdateVolumesStrategy, limits)
		if awaitsRestart(old) {
			rollout = Rollout{Open: slices.Concat(rollout.Live, rollout.Migrating, rollout.Open, rollout.Restart)}
		}
		return rollout.withChanges(changed, limits.LiveUpdate == nil).Warnings()
	}
	changed = append(changed, ChangedFields(now.Spec, was.Spec)...)
	if limits.LiveUpdate == nil {
		return Rollout{Restart: changed}.Warnings()
	}
	return Rollout{Open: changed}.Warnings()
}

// awaitsRestart reports whether a VM waits for a restart: what it waits for may be what an update takes back, so that it need not wait any more.
func awaitsRestart(vm *v1.VirtualMachine) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c v1.VirtualMachineCondition) bool {
		return c.Type == v1.VirtualMachineRestartRequired && c.Status == corev1.ConditionTrue
	})
}

// Warnings returns a warning for each list that is not empty.
func (r Rollout) Warnings() (warnings []string) {
	for _, list := range []struct {
		text  string
		names []string
	}{
		{"KubeVirt makes these changes while the guest runs: ", r.Live},
		{"KubeVirt makes these changes while the guest runs, if it can be migrated: ", r.Migrating},
		{"changes take effect live if possible, else when the VM is restarted: ", r.Open},
		{"changes take effect when the VM is restarted: ", r.Restart},
	} {
		if len(list.names) > 0 {
			warnings = append(warnings, listNames(list.text, list.names))
		}
	}
	return warnings
}

// withChanges adds what changes beside the spec of the template. Metadata of a VMI that runs stays as it is; another instancetype or preference may be what
// the VMI has, or differ from it in what KubeVirt plugs in.
func (r Rollout) withChanges(changed []string, staged bool) Rollout {
	for _, name := range changed {
		if name == templateMetadata || staged {
			r.Restart = append([]string{name}, r.Restart...)
		} else {
			r.Open = append([]string{name}, r.Open...)
		}
	}
	return r
}

// templateMetadata names labels and annotations of the template in warnings.
const templateMetadata = "template metadata"

// changedBeside names what an update changes of a VMI beside its spec.
func changedBeside(vm, old *v1.VirtualMachine) (changed []string) {
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
		changed = append(changed, templateMetadata)
	}
	return changed
}

// ChangedFields returns the JSON names of the fields in which two VMIs differ, such as 'domain.cpu' and 'volumes'.
func ChangedFields(now, was v1.VirtualMachineInstanceSpec) []string {
	return differingFields("", reflect.ValueOf(now), reflect.ValueOf(was))
}

// listNames names as many as a warning has room for, and counts the others.
func listNames(text string, names []string) string {
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

// differingFields returns the JSON names of the fields in which two structs of one type differ. Reflection finds fields that the API gains later,
// too.
func differingFields(prefix string, now, was reflect.Value) (names []string) {
	for i := range now.NumField() {
		name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("json"), ",")
		a, b := now.Field(i), was.Field(i)
		if equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		switch a.Interface().(type) {
		case v1.DomainSpec, v1.Devices: // that 'domain' has changed says too little
			names = append(names, differingFields(prefix+name+".", a, b)...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}
