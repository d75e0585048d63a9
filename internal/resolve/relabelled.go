package resolve

import (
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/preset"
	"github.com/kilnvm/kiln/pkg/profile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Presets and profiles select a VMI by its labels. A VM stays pinned to the same ones until its owner changes the labels.

// labelsChanged reports whether an update changes the labels by which presets and profiles match, or an annotation that excludes the VMI or some of its labels.
func labelsChanged(vm, old *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil || old.Spec.Template == nil {
		return false
	}
	now, was := vm.Spec.Template.ObjectMeta, old.Spec.Template.ObjectMeta
	return !maps.Equal(now.Labels, was.Labels) || now.Annotations[preset.Exclude] != was.Annotations[preset.Exclude] ||
		now.Annotations[v1alpha1.AnnotationProfileLabels] != was.Annotations[v1alpha1.AnnotationProfileLabels]
}

// relabelling is an update of a VM that changes the labels of its VMI.
type relabelling struct {
	// was are the objects that the VM was pinned to, and current the objects that a new pin would name.
	was, current []*pinObject
	vm, old      *v1.VirtualMachine
}

// selectsVMI reports whether a preset or a profile selects the VMI of a VM.
func (c *pinObject) selectsVMI(vm *v1.VirtualMachine) bool {
	switch {
	case vm.Spec.Template == nil:
		return true
	case c.preset != nil:
		matching, _ := preset.Match([]v1.VirtualMachineInstancePreset{*c.preset}, SelectableVMI(vm))
		return len(matching) > 0
	case c.profile != nil:
		return !c.base && c.profile.Selects(SelectableVMI(vm))
	}
	return true
}

// SelectableVMI returns the VMI of a VM with only the labels and annotations of the template, by which presets and profiles select it. It shares them with the
// VM. Labels and annotations that a VMI takes from its VM select nothing.
func SelectableVMI(vm *v1.VirtualMachine) *v1.VirtualMachineInstance {
	of := vm.Spec.Template.ObjectMeta
	return &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Labels: of.Labels, Annotations: of.Annotations}}
}

// findObject returns the object of the same kind and name; nil if it does not exist.
func findObject(all []*pinObject, wanted *pinObject) *pinObject {
	at := slices.IndexFunc(all, func(c *pinObject) bool {
		return c.source.Kind == wanted.source.Kind && c.source.Name == wanted.source.Name
	})
	if at < 0 {
		return nil
	}
	return all[at]
}

// newlyMatching returns the current objects that match now, did not match before, and are not pinned. An object that matched before and is not pinned was
// created after the VM was pinned, and does not apply to it.
func (c relabelling) newlyMatching() (found []*pinObject) {
	for _, p := range c.current {
		if known := findObject(c.was, p); (known == nil || known.base) && p.selectsVMI(c.vm) && !p.selectsVMI(c.old) {
			found = append(found, p)
		}
	}
	return found
}

// presetsFit reports whether all of the presets match.
func presetsFit(found []*pinObject, vm *v1.VirtualMachine) bool {
	return !slices.ContainsFunc(found, func(c *pinObject) bool { return !c.selectsVMI(vm) })
}

// relabelPresets drops the presets that no longer match, and adds the presets that match now and did not before.
func relabelPresets(c relabelling) ([]*pinObject, error) {
	kept := slices.DeleteFunc(slices.Clone(c.was), func(p *pinObject) bool { return !p.selectsVMI(c.vm) })
	return sortedBySource(append(kept, c.newlyMatching()...)), nil
}

// profilesFit reports whether each profile selects the VMI or is extended by one that does, and whether no extended profile is missing.
func profilesFit(found []*pinObject, vm *v1.VirtualMachine) bool {
	if vm.Spec.Template == nil {
		return true
	}
	all := pinnedProfiles(found)
	chosen, errs := profile.Select(all, SelectableVMI(vm))
	closure, missing := profile.Closure(chosen, all)
	return len(errs)+len(missing) == 0 && len(closure) == len(all)
}

// relabelProfiles keeps the revisions of profiles that still select the VMI. It adds the profiles that select it now and did not before, and all profiles
// that these extend. An added profile extends the pinned revision of a base if the VM is pinned to one, because a guest has one revision of a profile. A
// profile that was created after the VM was pinned, and is only extended, fills nothing by itself.
func relabelProfiles(c relabelling) ([]*pinObject, error) {
	pool := slices.Clone(c.was)
	for _, p := range c.current {
		if findObject(pool, p) == nil {
			pool = append(pool, p.withBase(true))
		}
	}
	for _, p := range c.newlyMatching() {
		at := slices.Index(pool, findObject(pool, p))
		if one := pool[at].withBase(false); one.selectsVMI(c.vm) {
			pool[at] = one
		}
	}
	all := pinnedProfiles(pool)
	chosen, errs := profile.Select(all, SelectableVMI(c.vm))
	closure, missing := profile.Closure(chosen, all)
	if errs = append(errs, missing...); len(errs) > 0 {
		return nil, (&Refusal{errs}).OfTemplate()
	}
	kept := []*pinObject{}
	for i, p := range pool {
		if slices.Contains(closure, all[i]) {
			kept = append(kept, p)
		}
	}
	return sortedBySource(kept), nil
}

// pinnedProfiles returns the profiles of objects, in their order; never nil.
func pinnedProfiles(found []*pinObject) []*profile.Profile {
	all := make([]*profile.Profile, 0, len(found))
	for _, c := range found {
		if c.base {
			all = append(all, asBase(c.profile))
		} else {
			all = append(all, c.profile)
		}
	}
	return all
}
