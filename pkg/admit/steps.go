package admit

import (
	"maps"
	"reflect"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/internal/filled"
	"github.com/kilnvm/kiln/pkg/mutate"
	"github.com/kilnvm/kiln/pkg/preset"
	"github.com/kilnvm/kiln/pkg/profile"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// steps make a VMI explicit, in this order. Each fills only what is unset, so that an earlier step wins: the user, then the instancetype, the
// preference, presets, profiles, defaults.
var steps = []func(*run){
	// Profiles are selected by the labels before any profile adds labels.
	(*run).planProfiles,
	(*run).applyInstancetype,
	// A preference decides whether the VMI gets a device that it does not name, and then its model: the device must be added in between. The devices of
	// profiles come before the devices of defaults, which only a VMI without such devices gets.
	(*run).attachPreferredDevices,
	(*run).attachProfileDevices,
	(*run).attachDefaultDevices,
	(*run).applyPreference,
	(*run).fillPresets,
	(*run).fillProfiles,
	(*run).fillDefaults,
}

// run is stage 1 on one VMI.
type run struct {
	vmi *v1.VirtualMachineInstance
	in  Input
	// observe is called after each step with the origin of the values that the step set. It is nil in admission, so that provenance costs admission nothing.
	observe func(Origin)
	// planned is what profiles fill; nil if no profile selects the VMI.
	planned *profile.Plan
	// log has what instancetype, preference, presets and profiles fill. It is nil without any such object, because no error can then name one.
	log *filled.Log
	// fillers are the sources that filled something, in the order of the log.
	fillers      []filler
	fillerBuffer [4]filler // enough for most runs, without an allocation
	// skipped are fields of presets that were not applied.
	skipped []preset.Skipped
	errs    field.ErrorList
}

// filler is the source of the entries of the log from the end of the filler before it up to its own end.
type filler struct {
	Origin
	end int
}

// expandVMI runs all steps on the VMI itself, not on a copy. observe may be nil.
func expandVMI(vmi *v1.VirtualMachineInstance, in Input, observe func(Origin)) *run {
	r := &run{vmi: vmi, in: in, observe: observe}
	return r.runSteps()
}

// completeVM makes the VMI of a VM explicit and logs what fills its fields. A VMI whose instancetype or preference does not exist yet is not changed: a draft
// of it is made explicit instead, and the VMI is judged in full when the controller pins the VM.
func completeVM(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance, in Input) (validate.Draft, *run) {
	draft := validate.Draft{Explicit: vmi}
	draft.May.Instancetype = vm.Spec.Instancetype != nil && in.Set.Instancetype == nil
	draft.May.Preference = vm.Spec.Preference != nil && in.Set.Preference == nil
	if draft.May.Instancetype || draft.May.Preference {
		draft.Written, draft.Explicit = vmi.DeepCopy(), vmi.DeepCopy()
		instancetype.Apply(in.Set, in.Cluster.Limits.Version, draft.Written)
	} else {
		placeIdentity(vmi)
	}
	r := &run{vmi: draft.Explicit, in: in}
	if in.hasSources() {
		r.log, r.fillers = filled.New(), r.fillerBuffer[:0]
	}
	return draft, r.runSteps()
}

// placeIdentity adds the object for the controller's UUID and serial number to the VMI of a VM, so that no preset fills it.
func placeIdentity(vmi *v1.VirtualMachineInstance) {
	if vmi.Spec.Domain.Firmware == nil {
		vmi.Spec.Domain.Firmware = &v1.Firmware{}
	}
}

func (r *run) runSteps() *run {
	for _, step := range steps {
		step(r)
	}
	return r
}

// filledBy returns the source of the first field at or below a path of the VMI; empty if the user or a default set the field.
func (r *run) filledBy(path string) filler {
	at := filled.None
	switch {
	case r.log.Len() == 0:
	case strings.HasPrefix(path, "metadata.labels["):
		at = r.log.Find(&r.vmi.Labels, "metadata.labels", path)
	case strings.HasPrefix(path, "metadata.annotations"):
		annotations := hardwareAnnotations(r.vmi)
		at = r.log.Find(&annotations, "metadata.annotations", path)
	default:
		at = r.log.Find(&r.vmi.Spec, "spec", path)
	}
	return r.fillerOf(at)
}

// objectFilledBy returns the source of the object at a path of the spec; empty if the user or a default has set it. Other sources may have filled its fields.
func (r *run) objectFilledBy(path string) filler {
	if r.log.Len() == 0 || !strings.HasPrefix(path, "spec.") {
		return filler{}
	}
	return r.fillerOf(r.log.FindObject(&r.vmi.Spec, "spec", path))
}

// fillerOf returns the source of an entry of the log; empty for None.
func (r *run) fillerOf(entry int) filler {
	for _, s := range r.fillers {
		if entry != filled.None && entry < s.end {
			return s
		}
	}
	return filler{}
}

// endStep ends a step: the entries of the log since the last step come from origin.
func (r *run) endStep(origin Origin) {
	if r.log.Len() > 0 && origin.Kind != FromDefault {
		r.fillers = append(r.fillers, filler{origin, r.log.Len()})
	}
	if r.observe != nil {
		r.observe(origin)
	}
}

func (r *run) applyInstancetype() {
	instancetype.ApplyInstancetype(r.in.Set, r.vmi, r.log)
	origin := Origin{Kind: FromInstancetype}
	if s := r.in.Set.Instancetype; s != nil {
		annotateSource(r.vmi, s.Source)
		origin.Name, origin.Revision = s.Name, s.Revision
	}
	r.endStep(origin)
}

// sourceAnnotations name the instancetype and preference of a VMI for people and dashboards, as KubeVirt's controller does. Stage 1 does not read them, because
// a user can write them.
var sourceAnnotations = map[string]string{
	instancetype.Kinds.Namespaced:           v1.InstancetypeAnnotation,
	instancetype.Kinds.Cluster:              v1.ClusterInstancetypeAnnotation,
	instancetype.PreferenceKinds.Namespaced: v1.PreferenceAnnotation,
	instancetype.PreferenceKinds.Cluster:    v1.ClusterPreferenceAnnotation,
}

// annotateSource writes the annotation that names a source.
func annotateSource(vmi *v1.VirtualMachineInstance, source instancetype.Source) {
	annotateNonEmpty(vmi, sourceAnnotations[source.Kind], source.Name)
}

func (r *run) attachPreferredDevices() {
	instancetype.Attach(r.in.Set, r.vmi, r.log)
	r.endStep(r.preferenceOrigin())
}

func (r *run) attachDefaultDevices() {
	before := r.vmi.Spec.Domain.Devices
	mutate.Attach(r.vmi, r.in.clusterDefaults())
	if r.log.Len() > 0 { // mutate.Attach may have reallocated the lists that have the devices of profiles
		after := r.vmi.Spec.Domain.Devices
		r.log.Moved(reflect.ValueOf(before.Disks), reflect.ValueOf(after.Disks))
		r.log.Moved(reflect.ValueOf(before.Interfaces), reflect.ValueOf(after.Interfaces))
		r.log.Moved(reflect.ValueOf(before.Inputs), reflect.ValueOf(after.Inputs))
	}
	r.endStep(Origin{Kind: FromDefault, Name: "attached devices"})
}

func (r *run) applyPreference() {
	instancetype.ApplyPreference(r.in.Set, r.in.Cluster.Limits.Version, r.vmi, r.log)
	if p := r.in.Set.Preference; p != nil {
		annotateSource(r.vmi, p.Source)
	}
	r.endStep(r.preferenceOrigin())
}

func (r *run) preferenceOrigin() Origin {
	origin := Origin{Kind: FromPreference}
	if p := r.in.Set.Preference; p != nil {
		origin.Name, origin.Revision = p.Name, p.Revision
	}
	return origin
}

// fillPresets applies the presets, each as a step. Without a matching preset there is one step without a name.
func (r *run) fillPresets() {
	if len(r.in.Presets) == 0 {
		r.endStep(Origin{Kind: FromPreset})
		return
	}
	some := false
	left, errs := preset.Fill(r.in.Presets, r.vmi, preset.Observer{Log: r.log, After: func(name string) {
		some = true
		r.endStep(Origin{Kind: FromPreset, Name: name})
	}})
	r.skipped, r.errs = left, append(r.errs, errs.WithOrigin("preset/conflict")...)
	if !some {
		r.endStep(Origin{Kind: FromPreset})
	}
}

// annotationsSince are annotations that defaults set, with the first KubeVirt that has them. An older one must not find them in its VMIs: after its upgrade
// they would claim for a VMI what the VMI was not made with.
var annotationsSince = map[string]config.Version{v1.PciTopologyVersionAnnotation: 8, v1.QGSSocketPathAnnotation: 9}

func (r *run) fillDefaults() {
	before := maps.Clone(r.vmi.Annotations)
	defer func() {
		for key, since := range annotationsSince {
			if _, written := before[key]; !written && r.in.Cluster.Limits.Version.Nearest() < since {
				delete(r.vmi.Annotations, key)
			}
		}
		if before == nil && len(r.vmi.Annotations) == 0 {
			r.vmi.Annotations = nil
		}
	}()
	if r.observe == nil {
		mutate.Apply(r.vmi, r.in.clusterDefaults())
	} else {
		mutate.Each(r.vmi, r.in.clusterDefaults(), func(pass string) { r.observe(Origin{Kind: FromDefault, Name: pass}) })
	}
	r.errs = append(r.errs, validate.QuoteSocket(r.vmi, r.in.clusterDefaults(), r.in.Cluster.Limits.Version, nil)...)
}

// mergeVerdict returns the conflicts between what was merged into the VMI. at is the path of the object with its metadata and spec: nil for the VMI itself.
func (r *run) mergeVerdict(at *field.Path) Verdict {
	var warnings []string
	for _, s := range r.skipped {
		warnings = append(warnings, s.String())
	}
	if at != nil {
		for _, err := range r.errs {
			err.Field = at.Child(err.Field).String()
		}
	}
	return Verdict{Errors: r.errs, Warnings: warnings}
}
