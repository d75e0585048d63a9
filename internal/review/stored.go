package review

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// PrepareVM reviews a VM for the mutating webhook: it is about to be stored as Stored returns it. An update that only drops the pins, such as 'kubectl replace'
// with the original manifest, gets the pins of the old VM. It is not resolved or judged, so that it works without a catalog. Policies judge a VM only if it
// is refused anyway, so that its owner reads all mistakes at once. They judge any other VM in ReviewVM, when it is final.
func (r Reviewer) PrepareVM(ctx context.Context, vm, old *v1.VirtualMachine, asker Asker) (VM, error) {
	if old == nil {
		vm, r.Resolver.CompletesNew = pin.WithoutAdmissionPins(vm), true
	}
	reviewed := r.newVMReview(vm, old, asker)
	vm = r.kubeVirtOrNone().KeepTemplate(vm, old, asker.Name, reviewed.configuration.Limits)
	reviewed.given = vm
	if _, pinned := vm.Annotations[v1alpha1.AnnotationPins]; pinned || old == nil || !equality.Semantic.DeepEqual(vm.Spec, old.Spec) {
		reviewed, err := r.runVMStage1(ctx, reviewed, asker)
		if err == nil && !reviewed.Allowed() {
			err = r.judgeVMByPolicies(ctx, &reviewed, asker)
		}
		return reviewed, err
	}
	reviewed.inference = old.Annotations[v1alpha1.AnnotationInference]
	reviewed.Resolved.Pins = pin.Read(old)
	reviewed.Resolved.Set.Architecture = old.Annotations[v1alpha1.AnnotationArchitecture]
	reviewed.Meant = resolve.EffectiveVM(vm, reviewed.Resolved.Pins)
	return reviewed, ctx.Err()
}

// Stored returns the VM as admission stores it: pinned and, if the cluster's policy requires it, with an expanded template. The drafts are the revisions that
// the VM is pinned to and that do not exist yet. The VM must be allowed, or Resolvable.
func (v VM) Stored() (*v1.VirtualMachine, []revision.Draft) {
	stored := *v.given // what is changed below is copied first
	v.setIdentity(&stored)
	pins, drafts, architecture := v.Resolved.Pins, v.Resolved.Drafts, v.Resolved.Set.Architecture
	if v.mustExpand() && v.expandTemplate(&stored) {
		// The template contains instancetype, preference and architecture. Presets, profiles and configuration stay pinned.
		pins.Instancetype, pins.Preference, architecture = "", "", ""
		kept := slices.Concat(pins.Presets, pins.Profiles, pins.Bases, []string{pins.Configuration})
		drafts = slices.DeleteFunc(slices.Clone(drafts), func(d revision.Draft) bool { return !slices.Contains(kept, d.Name) })
	}
	replaceAnnotation(&stored, v1alpha1.AnnotationInference, v.inference)
	replaceAnnotation(&stored, v1alpha1.AnnotationArchitecture, architecture)
	if lost := v.Resolved.LostPins; len(lost) > 0 { // a second call for the same request finds the new pins, and must not remove it
		replaceAnnotation(&stored, v1alpha1.AnnotationLostPins, lostPins(lost))
	}
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
		return nil, v.missingReferences()
	}
	if v.expandTemplate(expanded) {
		pins := pin.Read(expanded)
		pins.Instancetype, pins.Preference = "", ""
		pin.Write(expanded, pins)
		replaceAnnotation(expanded, v1alpha1.AnnotationArchitecture, "")
	}
	return expanded, nil
}

// missingReferences returns an error for each reference of a VM to an object that does not exist.
func (v VM) missingReferences() (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if ref := v.Meant.Spec.Instancetype; ref != nil && v.Input.Set.Instancetype == nil {
		errs = append(errs, field.NotFound(spec.Child("instancetype"), ref.Name))
	}
	if ref := v.Meant.Spec.Preference; ref != nil && v.Input.Set.Preference == nil {
		errs = append(errs, field.NotFound(spec.Child("preference"), ref.Name))
	}
	return errs
}

// mustExpand reports whether the policy requires an expanded template. Policy 'expand' does not change VMs that have revisions already, of Kiln or KubeVirt.
func (v VM) mustExpand() bool {
	switch v.configuration.Policy {
	case v1.Expand:
		if v.old == nil {
			return true
		}
		pins, recorded := pin.Read(v.old), resolve.StatusPins(v.old)
		return pins.Instancetype+pins.Preference+recorded.Instancetype+recorded.Preference == ""
	case v1.ExpandAll:
		return true
	}
	return false
}

// expandTemplate writes instancetype, preference and defaults into the template and removes the references. It reports false, and does not change the VM, if
// the VM has no references, or if an object that it refers to does not exist yet.
func (v VM) expandTemplate(vm *v1.VirtualMachine) bool {
	set, meant := v.Resolved.Set, resolve.EffectiveVM(vm, v.Resolved.Pins)
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

// setIdentity gives a new VM the seed of UUID, serial and MACs, unless it has one, such as a VM from a backup or from Git. In a VM that exists it restores the
// seed that 'kubectl replace' with the original manifest would drop: the guest would become another machine.
func (v VM) setIdentity(vm *v1.VirtualMachine) {
	seed := v.seed
	if v.old != nil {
		seed = v.old.Annotations[v1alpha1.AnnotationIdentity]
	}
	if seed != "" && vm.Annotations[v1alpha1.AnnotationIdentity] == "" {
		replaceAnnotation(vm, v1alpha1.AnnotationIdentity, seed)
	}
}

// inferenceRecord returns the value of the annotation that records what the inference of a VM may read.
func inferenceRecord(vm, old *v1.VirtualMachine, rights *resolve.Rights) string {
	if old != nil && !resolve.ChangesInferenceSources(vm, old) {
		return old.Annotations[v1alpha1.AnnotationInference]
	}
	return cmp.Or(rights, &resolve.Rights{}).Record()
}

// mostLostPins is the number of revisions that annotation kilnvm.io/lost-pins names. The pins themselves may have used the space for annotations.
const mostLostPins = 8

// lostPins returns the value of annotation kilnvm.io/lost-pins.
func lostPins(revisions []string) string {
	text := strings.Join(revisions[:min(len(revisions), mostLostPins)], ", ")
	if more := len(revisions) - mostLostPins; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
