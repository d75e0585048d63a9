package review

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Written reviews a VM that is about to be stored. It is VM, except for an update that only lost its pins, as 'kubectl replace' with the
// original manifest does: that gets the pins of the old VM, and nothing is resolved or judged, so that it works without a catalog.
// Policies judge a VM that is refused anyway, so that its owner reads all mistakes at once. Any other they judge when it is final, by VM.
func (r Reviewer) Written(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (VM, error) {
	if old == nil {
		vm, r.Resolver.CompletesNew = pin.Reconsidered(vm), true
	}
	reviewed := r.begin(vm, old, asker)
	vm = r.kubevirt().KeepTemplate(vm, old, asker.Name, reviewed.configuration.Limits)
	reviewed.given = vm
	if _, pinned := vm.Annotations[v1alpha1.AnnotationPins]; pinned || old == nil || !equality.Semantic.DeepEqual(vm.Spec, old.Spec) {
		reviewed, err := r.vm(ctx, reviewed, asker)
		if err == nil && !reviewed.Allowed() {
			err = r.judgeVM(ctx, &reviewed, asker)
		}
		return reviewed, err
	}
	reviewed.authorised = old.Annotations[v1alpha1.AnnotationInference]
	reviewed.Resolved.Pins = pin.Read(old)
	reviewed.Resolved.Set.Architecture = old.Annotations[v1alpha1.AnnotationArchitecture]
	reviewed.Meant = resolve.Effective(vm, reviewed.Resolved.Pins)
	return reviewed, ctx.Err()
}

// Stored is the VM as admission stores it: pinned, and where the cluster's policy says so with an expanded template. The drafts are the
// revisions that it is pinned to and that do not exist yet. The VM must be allowed.
func (v VM) Stored() (*v1.VirtualMachine, []revision.Draft) {
	stored := *v.given // what is changed below is copied first
	v.identify(&stored)
	pins, drafts, architecture := v.Resolved.Pins, v.Resolved.Drafts, v.Resolved.Set.Architecture
	if v.expands() && v.expand(&stored) {
		// The template holds what instancetype, preference and architecture were; what the VM gets without naming it stays pinned.
		pins.Instancetype, pins.Preference, architecture = "", "", ""
		kept := slices.Concat(pins.Presets, pins.Profiles, pins.Bases, []string{pins.Configuration})
		drafts = slices.DeleteFunc(slices.Clone(drafts), func(d revision.Draft) bool { return !slices.Contains(kept, d.Name) })
	}
	replaceAnnotation(&stored, v1alpha1.AnnotationInference, v.authorised)
	replaceAnnotation(&stored, v1alpha1.AnnotationArchitecture, architecture)
	pin.Write(&stored, pins)
	return &stored, drafts
}

// Expanded returns the VM with instancetype, preference and defaults in its template, and without the references: a VM that means the same and needs no
// catalog. One without references stays as it is. The errors say why a VM cannot be expanded.
func (v VM) Expanded() (*v1.VirtualMachine, field.ErrorList) {
	if !v.Allowed() {
		return nil, v.Errors
	}
	expanded := v.given.DeepCopy()
	if v.Unknown() {
		return nil, v.missing()
	}
	if v.expand(expanded) {
		pins := pin.Read(expanded)
		pins.Instancetype, pins.Preference = "", ""
		pin.Write(expanded, pins)
		replaceAnnotation(expanded, v1alpha1.AnnotationArchitecture, "")
	}
	return expanded, nil
}

// missing names the references of a VM that refer to nothing.
func (v VM) missing() (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if ref := v.Meant.Spec.Instancetype; ref != nil && v.Input.Set.Instancetype == nil {
		errs = append(errs, field.NotFound(spec.Child("instancetype"), ref.Name))
	}
	if ref := v.Meant.Spec.Preference; ref != nil && v.Input.Set.Preference == nil {
		errs = append(errs, field.NotFound(spec.Child("preference"), ref.Name))
	}
	return errs
}

// expands reports whether the policy asks for an expanded template. 'expand' leaves VMs alone that have revisions already, be they Kiln's or
// KubeVirt's.
func (v VM) expands() bool {
	switch v.configuration.Policy {
	case v1.Expand:
		if v.old == nil {
			return true
		}
		pins, recorded := pin.Read(v.old), resolve.Recorded(v.old)
		return pins.Instancetype+pins.Preference+recorded.Instancetype+recorded.Preference == ""
	case v1.ExpandAll:
		return true
	}
	return false
}

// expand writes instancetype, preference and defaults into the template and takes the references away. A VM without references stays as it
// is, and so does one whose references are not known yet.
func (v VM) expand(vm *v1.VirtualMachine) bool {
	set, meant := v.Resolved.Set, resolve.Effective(vm, v.Resolved.Pins)
	if vm.Spec.Instancetype == nil && vm.Spec.Preference == nil ||
		meant.Spec.Instancetype != nil && set.Instancetype == nil || meant.Spec.Preference != nil && set.Preference == nil {
		return false
	}
	// No presets: they are matched by the labels of the VMI when it starts, as for any other template.
	in := admit.Input{Set: set, Cluster: v.configuration}
	if v.Resolved.Defaults != nil {
		in.Cluster.Defaults = *v.Resolved.Defaults
	}
	explicit, judged := admit.VM(meant, nil, in)
	if !judged.Allowed() {
		return false
	}
	template := vm.Spec.Template.DeepCopy()
	annotations := maps.Clone(explicit.Annotations)
	for _, key := range []string{
		v1alpha1.AnnotationPins, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationHardware, v1alpha1.AnnotationArchitecture, v1alpha1.AnnotationGeneration,
	} {
		if _, own := template.ObjectMeta.Annotations[key]; !own {
			delete(annotations, key)
		}
	}
	template.ObjectMeta.Annotations, template.Spec = annotations, explicit.Spec
	volumes := slices.Clone(vm.Spec.DataVolumeTemplates)
	for i := range volumes {
		volumes[i] = *volumes[i].DeepCopy()
	}
	instancetype.PreferVolumes(set, volumes)
	vm.Spec.DataVolumeTemplates = volumes
	vm.Spec.Template, vm.Spec.Instancetype, vm.Spec.Preference = template, nil, nil
	return true
}

// identify gives a new VM the seed of UUID, serial and MACs, unless it brings one, as one from a backup or from Git does. In a VM that exists it restores
// the seed that 'kubectl replace' with the original manifest would drop: the guest would become another machine.
func (v VM) identify(vm *v1.VirtualMachine) {
	seed := v.seed
	if v.old != nil {
		seed = v.old.Annotations[v1alpha1.AnnotationIdentity]
	}
	if seed != "" && vm.Annotations[v1alpha1.AnnotationIdentity] == "" {
		replaceAnnotation(vm, v1alpha1.AnnotationIdentity, seed)
	}
}

// authorised is what a VM has to record of the rights that its inference was asked with.
func authorised(vm, old *v1.VirtualMachine, rights *resolve.Rights) string {
	if old != nil && !resolve.RequestsInference(vm, old) {
		return old.Annotations[v1alpha1.AnnotationInference]
	}
	return cmp.Or(rights, &resolve.Rights{}).Record()
}

// replaceAnnotation sets an annotation of a VM, or removes it if the value is empty. It replaces the map, which may belong to another object.
func replaceAnnotation(vm *v1.VirtualMachine, key, value string) {
	if vm.Annotations[key] == value {
		return
	}
	vm.Annotations = maps.Clone(vm.Annotations)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[key] = value
	if value == "" {
		delete(vm.Annotations, key)
	}
}
