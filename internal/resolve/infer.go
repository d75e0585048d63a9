package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// A matcher with inferFromVolume names no object: the image that the volume is made of recommends one, by its labels. What is
// found is pinned, and looked for again only when the owner asks; the spec stays as it was written.

// noRecommendation is the error of a volume that recommends nothing. It is the one that the policy Ignore ignores.
type noRecommendation struct{ reason string }

func (s *noRecommendation) Error() string { return s.reason }

// notFound is the error of a source that does not exist yet.
type notFound struct{ reason string }

func (a *notFound) Error() string { return a.reason }

// hasPolicy reports whether inferFromVolumeFailurePolicy is absent or a known value.
func (r *reference) hasPolicy() bool {
	return r.policy == nil || *r.policy == v1.RejectInferFromVolumeFailure || *r.policy == v1.IgnoreInferFromVolumeFailure
}

// ignores reports whether inferFromVolumeFailurePolicy is Ignore: the VMI starts without instancetype or preference when the volume recommends none.
func (r *reference) ignores() bool {
	return r.inferFrom != "" && r.policy != nil && *r.policy == v1.IgnoreInferFromVolumeFailure
}

// infer names what the volume recommends; without a name when that is nothing, and to be ignored. Nil without an error or a
// refusal: the volume cannot answer yet.
func (r Resolver) infer(ctx context.Context, ref *reference, answer *Answer) (*reference, field.ErrorList, error) {
	at, named := ref.path.Child("inferFromVolume"), *ref
	labels, err := walk{Resolver: r, ref: ref}.volume(ctx)
	var nothing *noRecommendation
	var missing *notFound
	var refused *field.Error
	switch {
	case errors.As(err, &refused):
		refused.Field = at.String()
		return nil, field.ErrorList{refused}, nil
	case errors.As(err, &missing):
		answer.Waiting = true
		answer.warnMissing(Missing{Path: at, Value: ref.inferFrom},
			"%s: %s; the VM cannot start until volume '%s' recommends its %s", at, missing, ref.inferFrom, ref.field)
		return nil, nil, nil
	case errors.As(err, &nothing) && ref.ignores():
		answer.warn("%s: %s; the VMI gets no %s", at, nothing, ref.field)
		return &named, nil, nil
	case errors.As(err, &nothing):
		return nil, field.ErrorList{field.Invalid(at, ref.inferFrom,
			fmt.Sprintf("%s: name the %s, or set inferFromVolumeFailurePolicy to 'Ignore' for a VMI without one", nothing, ref.field)).WithOrigin("vm/inference")}, nil
	case err != nil:
		return nil, nil, err
	}
	named.inferred, named.name, named.kind = true, labels[ref.label], labels[ref.label+"-kind"]
	return &named, nil, nil
}

// walk goes from the volume of a guest to the image that it is made of.
type walk struct {
	Resolver
	ref *reference
	// referred says that a DataSource has referred to the one at hand.
	referred bool
}

// recommends reports whether these labels recommend something.
func (w walk) recommends(labels map[string]string) bool { return labels[w.ref.label] != "" }

// volume finds the labels that recommend something: those of a claim, or of what a DataVolume copies.
func (w walk) volume(ctx context.Context) (map[string]string, error) {
	var volumes []v1.Volume
	if template := w.ref.vm.Spec.Template; template != nil {
		volumes = template.Spec.Volumes
	}
	for i := range volumes {
		switch volume := &volumes[i]; {
		case volume.Name != w.ref.inferFrom:
		case volume.PersistentVolumeClaim != nil:
			return w.claim(ctx, w.ref.namespace, volume.PersistentVolumeClaim.ClaimName)
		case volume.DataVolume != nil:
			return w.dataVolume(ctx, volume.DataVolume.Name)
		default:
			return nil, &noRecommendation{"only volumes of type persistentVolumeClaim or dataVolume recommend an instancetype or a preference"}
		}
	}
	return nil, field.Invalid(nil, w.ref.inferFrom, "must name a volume of spec.template.spec.volumes").WithOrigin("vm/inference")
}

// claim ends a walk, as snapshot does.
func (w walk) claim(ctx context.Context, namespace, name string) (map[string]string, error) {
	return w.leaf(ctx, Source{claims, namespace, name})
}

func (w walk) leaf(ctx context.Context, source Source) (map[string]string, error) {
	labels, err := w.look(ctx, source, nil)
	if err == nil && !w.recommends(labels) {
		err = &noRecommendation{fmt.Sprintf("%s has no label '%s'", source, w.ref.label)}
	}
	return labels, err
}

// dataVolume looks at the template of the VM first: the DataVolume is made from it when the VM exists.
func (w walk) dataVolume(ctx context.Context, name string) (map[string]string, error) {
	for i := range w.ref.vm.Spec.DataVolumeTemplates {
		if template := &w.ref.vm.Spec.DataVolumeTemplates[i]; template.Name == name {
			return w.copied(ctx, &template.Spec)
		}
	}
	var volume cdi.DataVolume
	labels, err := w.look(ctx, Source{dataVolumes, w.ref.namespace, name}, &volume)
	switch {
	case errors.As(err, new(*notFound)): // a DataVolume may be removed when its claim is filled
		return w.claim(ctx, w.ref.namespace, name)
	case err != nil || w.recommends(labels):
		return labels, err
	}
	return w.copied(ctx, &volume.Spec)
}

// copied goes on to what a DataVolume is a copy of.
func (w walk) copied(ctx context.Context, spec *cdi.DataVolumeSpec) (map[string]string, error) {
	switch source, ref := spec.Source, spec.SourceRef; {
	case source != nil && source.PVC != nil:
		return w.claim(ctx, w.orOwnNamespace(source.PVC.Namespace), source.PVC.Name)
	case source != nil && source.Snapshot != nil:
		return w.leaf(ctx, Source{snapshots, w.orOwnNamespace(source.Snapshot.Namespace), source.Snapshot.Name})
	case ref != nil && ref.Kind == cdi.DataVolumeDataSource:
		namespace := w.ref.namespace
		if ref.Namespace != nil {
			namespace = w.orOwnNamespace(*ref.Namespace)
		}
		return w.dataSource(ctx, Source{dataSources, namespace, ref.Name})
	}
	return nil, &noRecommendation{"the source of its DataVolume recommends nothing: only a PersistentVolumeClaim, VolumeSnapshot or DataSource does"}
}

// dataSource goes on to what a DataSource stands for, over one other DataSource at most, as CDI itself does.
func (w walk) dataSource(ctx context.Context, at Source) (map[string]string, error) {
	var found cdi.DataSource
	labels, err := w.look(ctx, at, &found)
	if err != nil || w.recommends(labels) {
		return labels, err
	}
	switch source := found.Spec.Source; {
	case source.PVC != nil:
		return w.claim(ctx, w.orOwnNamespace(source.PVC.Namespace), source.PVC.Name)
	case source.Snapshot != nil:
		return w.leaf(ctx, Source{snapshots, w.orOwnNamespace(source.Snapshot.Namespace), source.Snapshot.Name})
	case source.DataSource != nil && !w.referred:
		w.referred = true
		return w.dataSource(ctx, Source{dataSources, w.orOwnNamespace(source.DataSource.Namespace), source.DataSource.Name})
	}
	return nil, &noRecommendation{fmt.Sprintf("%s names neither a PersistentVolumeClaim nor a VolumeSnapshot", at)}
}

func (w walk) orOwnNamespace(namespace string) string {
	if namespace == "" {
		return w.ref.namespace
	}
	return namespace
}

// Effective returns a VM as its pins mean it: without a matcher whose volume recommends nothing, if the policy is Ignore; and, where
// an instancetype was recommended to a VM whose spec also
// has memory for the case without, without that memory. The VM itself is not changed.
func Effective(vm *v1.VirtualMachine, pins v1alpha1.Pins) *v1.VirtualMachine {
	instancetype, preference := references(vm)
	effective := *vm
	if preference != nil && preference.ignores() && pins.Preference == v1alpha1.PinNone {
		effective.Spec.Preference = nil
	}
	switch {
	case instancetype == nil || !instancetype.ignores():
	case pins.Instancetype == v1alpha1.PinNone:
		effective.Spec.Instancetype = nil
	case pins.Instancetype != "" && vm.Spec.Template != nil:
		template := *vm.Spec.Template
		template.Spec.Domain.Memory = nil
		effective.Spec.Template = &template
	}
	return &effective
}

// Asks reports whether an update asks for an inference: by another matcher or other volumes, or for a new pin. Who asks must have the
// right to read what it reads.
func Asks(vm, old *v1.VirtualMachine) bool {
	type asked struct { // exported, as the comparison wants
		Size       *v1.InstancetypeMatcher
		Preference *v1.PreferenceMatcher
		Templates  []v1.DataVolumeTemplateSpec
		Volumes    []v1.Volume
	}
	of := func(vm *v1.VirtualMachine) asked {
		a := asked{vm.Spec.Instancetype, vm.Spec.Preference, vm.Spec.DataVolumeTemplates, nil}
		if vm.Spec.Template != nil {
			a.Volumes = vm.Spec.Template.Spec.Volumes
		}
		return a
	}
	now, was := pin.Parse(vm), pin.Parse(old)
	return asks(now.Instancetype, was.Instancetype) || asks(now.Preference, was.Preference) || !equality.Semantic.DeepEqual(of(vm), of(old))
}

// asks reports whether a pin is to be another one. The first pin of a VM is the controller's to write.
func asks(now, was pin.Entry) bool {
	return now.Asks() || now.Pinned() && was.Pinned() && !now.Equal(was)
}
