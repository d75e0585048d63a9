package admission

import (
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	v1 "kubevirt.io/api/core/v1"
)

// expands tells whether the policy asks for an expanded template. 'expand' leaves VMs alone that have revisions already, be they
// Kiln's or KubeVirt's.
func (s *Server) expands(old *v1.VirtualMachine) bool {
	switch s.Cluster().Policy {
	case v1.Expand:
		if old == nil {
			return true
		}
		pins, recorded := resolve.ReadPins(old), resolve.Recorded(old)
		return pins.Instancetype+pins.Preference+recorded.Instancetype+recorded.Preference == ""
	case v1.ExpandAll:
		return true
	}
	return false
}

// expand writes size, preference and defaults into the template and takes the references away. A VM that is going to be
// refused stays as it is, so that validation names what the user wrote; so does one whose references are not known yet.
func (s *Server) expand(vm *v1.VirtualMachine, resolved *resolve.Answer) {
	meant := resolve.Effective(vm, resolved.Pins)
	if vm.Spec.Instancetype == nil && vm.Spec.Preference == nil ||
		meant.Spec.Instancetype != nil && resolved.Set.Instancetype == nil || meant.Spec.Preference != nil && resolved.Set.Preference == nil {
		return
	}
	// No presets: they are matched by the labels of the guest when it starts, as for any other template.
	in := admit.Input{Set: resolved.Set, Cluster: s.Cluster()}
	if resolved.Defaults != nil {
		in.Cluster.Defaults = *resolved.Defaults
	}
	explicit, judged := admit.VM(meant, nil, in)
	if !judged.Allowed() {
		return
	}
	template := vm.Spec.Template.DeepCopy()
	annotations := maps.Clone(explicit.Annotations)
	for _, key := range []string{v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationGeneration} {
		if _, own := template.ObjectMeta.Annotations[key]; !own {
			delete(annotations, key)
		}
	}
	template.ObjectMeta.Annotations, template.Spec = annotations, explicit.Spec
	volumes := slices.Clone(vm.Spec.DataVolumeTemplates)
	for i := range volumes {
		volumes[i] = *volumes[i].DeepCopy()
	}
	instancetype.PreferVolumes(resolved.Set, volumes)
	vm.Spec.DataVolumeTemplates = volumes
	vm.Spec.Template, vm.Spec.Instancetype, vm.Spec.Preference = template, nil, nil
	// The template holds what size and preference were; what the guest gets without naming it stays pinned.
	pins := v1alpha1.Pins{Presets: resolved.Pins.Presets, Configuration: resolved.Pins.Configuration}
	drafts := slices.DeleteFunc(resolved.Drafts, func(d revision.Draft) bool {
		return d.Name != pins.Configuration && !slices.Contains(pins.Presets, d.Name)
	})
	*resolved = resolve.Answer{Pins: pins, Drafts: drafts, Warnings: resolved.Warnings}
}
