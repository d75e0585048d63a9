package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/nearest"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// A matcher with inferFromVolume names no object: labels of the volume's source recommend one. The result is pinned, and inferred again only at
// a repin. The spec stays as it was written.

// noRecommendation is the error of a volume that recommends nothing. inferFromVolumeFailurePolicy Ignore ignores it, and no other.
type noRecommendation struct{ reason string }

func (s *noRecommendation) Error() string { return s.reason }

// notFound is the error of a source that does not exist. It may be created later.
type notFound struct{ reason string }

func (a *notFound) Error() string { return a.reason }

// hasPolicy reports whether inferFromVolumeFailurePolicy is absent or a known value.
func (r *reference) hasPolicy() bool {
	return r.policy == nil || *r.policy == v1.RejectInferFromVolumeFailure || *r.policy == v1.IgnoreInferFromVolumeFailure
}

// ignoresInferFailure reports whether inferFromVolumeFailurePolicy is Ignore: the VMI starts without instancetype or preference when the volume recommends
// none.
func (r *reference) ignoresInferFailure() bool {
	return r.inferFrom != "" && r.policy != nil && *r.policy == v1.IgnoreInferFromVolumeFailure
}

// Inference is what a volume recommends, and the objects whose labels recommend it.
type Inference struct {
	// Path is the field of the VM that names the volume.
	Path *field.Path
	// Read are the objects that were read, in this order. The last has the labels.
	Read []Source
	// Kind and Name are of the recommended object. Kind is the value of the label; empty for the cluster-wide kind.
	Kind, Name string
}

// String returns the inference as a sentence.
func (i Inference) String() string {
	var steps []string
	for _, source := range i.Read {
		steps = append(steps, source.String())
	}
	verb := " recommends "
	if len(steps) > 1 {
		verb = ", which recommends "
	}
	return strings.Join(steps, " leads to ") + verb + i.Kind + " '" + i.Name + "'"
}

// inferReference returns a reference to the recommended object. The reference has no name if the volume recommends nothing and the failure policy is Ignore.
// Nil without errors means that a source does not exist yet.
func (r Resolver) inferReference(ctx context.Context, ref *reference, resolution *Resolution) (*reference, field.ErrorList, error) {
	at, named, before := ref.matcherPath().Child("inferFromVolume"), *ref, len(resolution.Read)
	labels, err := sourceReader{Resolver: r, ref: ref}.volumeLabels(ctx)
	var nothing *noRecommendation
	var missing *notFound
	var refused *field.Error
	switch {
	case errors.As(err, &refused):
		refused.Field = at.String()
		return nil, field.ErrorList{refused}, nil
	case errors.As(err, &missing) && r.InfersAtOnce:
		return nil, field.ErrorList{field.Invalid(at, ref.inferFrom, fmt.Sprintf("%s, and KubeVirt infers when the VM is written: create it before the VM, or "+
			"name the %s", missing, ref.field)).WithOrigin("vm/inference")}, nil
	case errors.As(err, &missing):
		resolution.Waiting = true
		resolution.warnMissing(Missing{Path: at, Value: ref.inferFrom},
			"%s: %s; the VM cannot start until volume '%s' recommends its %s", at, missing, ref.inferFrom, ref.field)
		return nil, nil, nil
	case errors.As(err, &nothing) && ref.ignoresInferFailure():
		resolution.addWarning("%s: %s; the VMI gets no %s", at, nothing, ref.field)
		return &named, nil, nil
	case errors.As(err, &nothing):
		return nil, field.ErrorList{field.Invalid(at, ref.inferFrom,
			fmt.Sprintf("%s: name the %s, or set inferFromVolumeFailurePolicy to 'Ignore' for a VMI without one", nothing, ref.field)).WithOrigin("vm/inference")}, nil
	case err != nil:
		return nil, nil, err
	}
	named.inferred, named.name, named.kind = true, labels[ref.label], labels[ref.label+"-kind"]
	resolution.Inferred = append(resolution.Inferred, Inference{
		Path: at, Read: slices.Clone(resolution.Read[before:]), Kind: cmp.Or(named.Canonical(named.kind), named.kind), Name: named.name,
	})
	return &named, nil, nil
}

// sourceReader follows a volume to the source that it is made from, in the order of KubeVirt's inference (PersistentVolumeClaim, DataVolume, DataSource).
// Unlike KubeVirt, it reads another namespace only with the rights of the request's author.
type sourceReader struct {
	Resolver
	ref *reference
	// referred reports that a DataSource has referred to the current one.
	referred bool
}

// isRecommending reports whether labels name an instancetype or a preference.
func (r sourceReader) isRecommending(labels map[string]string) bool { return labels[r.ref.label] != "" }

// volumeLabels returns the labels that recommend something: the labels of the volume's claim, or of the source that its DataVolume copies.
func (r sourceReader) volumeLabels(ctx context.Context) (map[string]string, error) {
	var volumes []v1.Volume
	if template := r.ref.vm.Spec.Template; template != nil {
		volumes = template.Spec.Volumes
	}
	var names []string
	for i := range volumes {
		names = append(names, volumes[i].Name)
		switch volume := &volumes[i]; {
		case volume.Name != r.ref.inferFrom:
		case volume.PersistentVolumeClaim != nil:
			return r.claimLabels(ctx, r.ref.namespace, volume.PersistentVolumeClaim.ClaimName)
		case volume.DataVolume != nil:
			return r.dataVolumeLabels(ctx, volume.DataVolume.Name)
		default:
			return nil, &noRecommendation{"only volumes of type persistentVolumeClaim or dataVolume recommend an instancetype or a preference"}
		}
	}
	detail := "must name a volume of spec.template.spec.volumes"
	if meant := nearest.Name(r.ref.inferFrom, names); meant != "" {
		detail += "; did you mean '" + meant + "'?"
	}
	return nil, field.Invalid(nil, r.ref.inferFrom, detail).WithOrigin("vm/inference")
}

// claimLabels ends the search at a PersistentVolumeClaim.
func (r sourceReader) claimLabels(ctx context.Context, namespace, name string) (map[string]string, error) {
	return r.leafLabels(ctx, Source{claims, namespace, name})
}

func (r sourceReader) leafLabels(ctx context.Context, source Source) (map[string]string, error) {
	labels, err := r.readPermitted(ctx, source, nil)
	if err == nil && !r.isRecommending(labels) {
		err = &noRecommendation{fmt.Sprintf("%s has no label '%s'", source, r.ref.label)}
	}
	return labels, err
}

// dataVolumeLabels reads the labels of the DataVolume, then of its claim, which has them too, then of the VM's dataVolumeTemplate, from which both get them,
// then of their source. A DataVolume may be removed when its claim is filled. Beside KubeVirt the source of the dataVolumeTemplate goes first: KubeVirt
// creates both after the VM, infers when the VM is written, and does not read the labels of the dataVolumeTemplate.
func (r sourceReader) dataVolumeLabels(ctx context.Context, name string) (map[string]string, error) {
	template := r.dataVolumeTemplate(name)
	if template != nil && r.InfersAtOnce {
		return r.copiedLabels(ctx, &template.Spec)
	}
	var volume cdi.DataVolume
	labels, err := r.readPermitted(ctx, Source{dataVolumes, r.ref.namespace, name}, &volume)
	absent := errors.As(err, new(*notFound))
	if err == nil && r.isRecommending(labels) || err != nil && !absent {
		return labels, err
	}
	claimed, err := r.claimLabels(ctx, r.ref.namespace, name)
	unfilled := errors.As(err, new(*notFound))
	var nothing *noRecommendation
	if err != nil && !unfilled && !errors.As(err, &nothing) || err == nil {
		return claimed, err
	}
	spec := &volume.Spec
	switch {
	case !absent:
	case !unfilled:
		return claimed, err
	case template == nil:
		return nil, r.absentError(fmt.Sprintf("DataVolume and PersistentVolumeClaim '%s/%s'", r.ref.namespace, name), "do not exist", "are not among the files")
	case r.isRecommending(template.Labels):
		r.recordRead(Source{sourceKind{schema.GroupVersionKind{Kind: "dataVolumeTemplate"}, ""}, r.ref.namespace, name})
		return template.Labels, nil
	default:
		spec = &template.Spec
	}
	labels, copied := r.copiedLabels(ctx, spec)
	// A DataVolume that a user creates from the template may have labels. An import from a registry gets the labels of its image after it has begun.
	imports := spec.Source != nil && spec.Source.Registry != nil && volume.Status.Phase != cdi.Succeeded
	if errors.As(copied, &nothing) && unfilled && !copiesObject(spec) && (absent || imports) {
		return nil, &notFound{fmt.Sprintf("DataVolume '%s/%s' and its claim have no label '%s' yet", r.ref.namespace, name, r.ref.label)}
	}
	return labels, copied
}

// dataVolumeTemplate returns the VM's dataVolumeTemplate of a name; nil if it does not exist.
func (r sourceReader) dataVolumeTemplate(name string) *v1.DataVolumeTemplateSpec {
	for i := range r.ref.vm.Spec.DataVolumeTemplates {
		if template := &r.ref.vm.Spec.DataVolumeTemplates[i]; template.Name == name {
			return template
		}
	}
	return nil
}

// copiesObject reports whether a DataVolume copies an object of the cluster, and is not imported.
func copiesObject(spec *cdi.DataVolumeSpec) bool {
	return spec.SourceRef != nil || spec.Source != nil && (spec.Source.PVC != nil || spec.Source.Snapshot != nil)
}

// copiedLabels follows a DataVolume to its source.
func (r sourceReader) copiedLabels(ctx context.Context, spec *cdi.DataVolumeSpec) (map[string]string, error) {
	switch source, ref := spec.Source, spec.SourceRef; {
	case source != nil && source.PVC != nil:
		return r.claimLabels(ctx, r.orOwnNamespace(source.PVC.Namespace), source.PVC.Name)
	case source != nil && source.Snapshot != nil:
		return r.leafLabels(ctx, Source{snapshots, r.orOwnNamespace(source.Snapshot.Namespace), source.Snapshot.Name})
	case ref != nil && ref.Kind == cdi.DataVolumeDataSource:
		namespace := r.ref.namespace
		if ref.Namespace != nil {
			namespace = r.orOwnNamespace(*ref.Namespace)
		}
		return r.dataSourceLabels(ctx, Source{dataSources, namespace, ref.Name})
	}
	if ref := spec.SourceRef; ref != nil && nearest.Name(ref.Kind, []string{cdi.DataVolumeDataSource}) != "" {
		return nil, &noRecommendation{fmt.Sprintf("CDI knows no sourceRef of kind '%s', only '%s'", ref.Kind, cdi.DataVolumeDataSource)}
	}
	return nil, &noRecommendation{"the source of its DataVolume recommends nothing: only a PersistentVolumeClaim, VolumeSnapshot or DataSource does"}
}

// dataSourceLabels follows a DataSource to its source, over at most one other DataSource, as CDI does. The bound also ends a cycle.
func (r sourceReader) dataSourceLabels(ctx context.Context, at Source) (map[string]string, error) {
	var found cdi.DataSource
	labels, err := r.readPermitted(ctx, at, &found)
	if err != nil || r.isRecommending(labels) {
		return labels, err
	}
	switch source := found.Spec.Source; {
	case source.PVC != nil:
		return r.claimLabels(ctx, r.orOwnNamespace(source.PVC.Namespace), source.PVC.Name)
	case source.Snapshot != nil:
		return r.leafLabels(ctx, Source{snapshots, r.orOwnNamespace(source.Snapshot.Namespace), source.Snapshot.Name})
	case source.DataSource != nil && !r.referred:
		r.referred = true
		return r.dataSourceLabels(ctx, Source{dataSources, r.orOwnNamespace(source.DataSource.Namespace), source.DataSource.Name})
	}
	return nil, &noRecommendation{fmt.Sprintf("%s names neither a PersistentVolumeClaim nor a VolumeSnapshot", at)}
}

// orOwnNamespace returns the VM's namespace for an empty one.
func (r sourceReader) orOwnNamespace(namespace string) string {
	if namespace == "" {
		return r.ref.namespace
	}
	return namespace
}

// EffectiveVM returns a copy of a VM without the fields that its pins make ineffective. With inferFromVolumeFailurePolicy Ignore, it drops a matcher whose
// volume recommends nothing. If the volume recommends an instancetype, it drops spec.template.spec.domain.memory, which is only for a VM without an
// instancetype.
func EffectiveVM(vm *v1.VirtualMachine, pins v1alpha1.Pins) *v1.VirtualMachine {
	instancetype, preference := matcherReferences(vm)
	effective := *vm
	if preference != nil && preference.ignoresInferFailure() && pins.Preference == v1alpha1.PinNone {
		effective.Spec.Preference = nil
	}
	switch {
	case instancetype == nil || !instancetype.ignoresInferFailure():
	case pins.Instancetype == v1alpha1.PinNone:
		effective.Spec.Instancetype = nil
	case pins.Instancetype != "" && vm.Spec.Template != nil:
		template := *vm.Spec.Template
		template.Spec.Domain.Memory = nil
		effective.Spec.Template = &template
	}
	return &effective
}

// ChangesInferenceSources reports whether an update may need an inference, because it changes a matcher, a volume or a pin. Then the sources are read with the
// rights of the request's author.
func ChangesInferenceSources(vm, old *v1.VirtualMachine) bool {
	type sources struct { // exported fields, as equality.Semantic needs
		Instancetype *v1.InstancetypeMatcher
		Preference   *v1.PreferenceMatcher
		Templates    []v1.DataVolumeTemplateSpec
		Volumes      []v1.Volume
	}
	of := func(vm *v1.VirtualMachine) sources {
		a := sources{vm.Spec.Instancetype, vm.Spec.Preference, vm.Spec.DataVolumeTemplates, nil}
		if vm.Spec.Template != nil {
			a.Volumes = vm.Spec.Template.Spec.Volumes
		}
		return a
	}
	now, was := pin.Parse(vm), pin.Parse(old)
	return changesPin(now.Instancetype, was.Instancetype) || changesPin(now.Preference, was.Preference) || !equality.Semantic.DeepEqual(of(vm), of(old))
}

// changesPin reports whether an update changes a pin. The first pin does not count: the controller writes it.
func changesPin(now, was pin.Entry) bool {
	return now.RepinRequested() || now.Pinned() && was.Pinned() && !now.Equal(was)
}
