package resolve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// A guest that names no architecture, and whose preference names none, has that of the image which its data volumes copy, as the
// label of its DataSource says. Once it is found, an annotation keeps it: a label that changes must not change the guest.

// labelArchitecture is what CDI and the importers of images put on a DataSource.
const labelArchitecture = "template.kubevirt.io/architecture"

var architectures = []string{"amd64", "arm64", "s390x"}

// architecture of the first image that tells it, empty when none does. What does not exist, or may not be read, tells nothing.
func (r Resolver) architecture(ctx context.Context, vm, old *v1.VirtualMachine, preference *instancetype.Preference) (string, error) {
	if vm.Spec.Template == nil || vm.Spec.Template.Spec.Architecture != "" {
		return "", nil
	}
	known := vm.Annotations[v1alpha1.AnnotationArchitecture]
	if old != nil {
		known = cmp.Or(known, old.Annotations[v1alpha1.AnnotationArchitecture])
	}
	if known != "" || preference != nil && preference.Spec.PreferredArchitecture != nil {
		return known, nil
	}
	w := walk{Resolver: r, ref: &reference{namespace: vm.Namespace, vm: vm}}
	all := w.images()
	wanted := imageRights{walk: w, names: map[string]string{}}
	for _, at := range all {
		wanted.name(at)
	}
	for _, at := range all {
		found, err := wanted.labelled(ctx, at)
		if errors.As(err, new(*field.Error)) {
			return "", nil // one refusal is answer enough: nothing more is asked
		}
		if err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}

// images are the DataSources that the data volumes of a VM copy.
func (w walk) images() (all []Source) {
	for i := range w.ref.vm.Spec.DataVolumeTemplates {
		ref := w.ref.vm.Spec.DataVolumeTemplates[i].Spec.SourceRef
		if ref == nil || !strings.EqualFold(ref.Kind, cdi.DataVolumeDataSource) {
			continue
		}
		at := Source{sourceKind: dataSources, Namespace: w.ref.namespace, Name: ref.Name}
		if ref.Namespace != nil {
			at.Namespace = w.orOwnNamespace(*ref.Namespace)
		}
		all = append(all, at)
	}
	return all
}

// imageRights asks one SubjectAccessReview for each namespace, however many images of it a VM copies: for the image if it is the only
// one, else for all DataSources of the namespace.
type imageRights struct {
	walk
	// names are what is asked for, by namespace.
	names map[string]string
}

func (r imageRights) name(at Source) {
	if known, found := r.names[at.Namespace]; found && known != at.Name {
		at.Name = every
	}
	r.names[at.Namespace] = at.Name
}

// look is walk.look with the right to the namespace. What does not exist is not asked about further: nothing waits for it.
func (r imageRights) look(ctx context.Context, at Source, into any) (map[string]string, error) {
	r.name(at)
	if err := r.permitted(ctx, Source{at.sourceKind, at.Namespace, r.names[at.Namespace]}); err != nil {
		return nil, err
	}
	return r.read(ctx, at, into)
}

// labelled is the architecture that a DataSource names, or the one that it stands for: one step, as far as CDI itself goes.
func (r imageRights) labelled(ctx context.Context, at Source) (string, error) {
	var found cdi.DataSource
	labels, err := r.look(ctx, at, &found)
	if next := found.Spec.Source.DataSource; err == nil && next != nil {
		labels, err = r.look(ctx, Source{dataSources, r.orOwnNamespace(next.Namespace), next.Name}, nil)
	}
	if errors.As(err, new(*notFound)) {
		return "", nil
	}
	if found := labels[labelArchitecture]; err == nil && slices.Contains(architectures, found) {
		return found, nil
	}
	return "", err
}
