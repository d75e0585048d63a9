package resolve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/instancetype"
	"github.com/kilnvm/kiln/pkg/pipeline"
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
	known := vm.Annotations[pipeline.AnnotationArchitecture]
	if old != nil {
		known = cmp.Or(known, old.Annotations[pipeline.AnnotationArchitecture])
	}
	if known != "" || preference != nil && preference.Spec.PreferredArchitecture != nil {
		return known, nil
	}
	w := walk{Resolver: r, ref: &reference{namespace: vm.Namespace, vm: vm}}
	for i := range vm.Spec.DataVolumeTemplates {
		found, err := w.labelled(ctx, vm.Spec.DataVolumeTemplates[i].Spec.SourceRef)
		if err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}

// labelled is the architecture that a DataSource names, or the one that it stands for: one step, as far as CDI itself goes.
func (w walk) labelled(ctx context.Context, ref *cdi.DataVolumeSourceRef) (string, error) {
	if ref == nil || !strings.EqualFold(ref.Kind, cdi.DataVolumeDataSource) {
		return "", nil
	}
	at := Source{sourceKind: dataSources, Namespace: w.ref.namespace, Name: ref.Name}
	if ref.Namespace != nil {
		at.Namespace = w.orOwn(*ref.Namespace)
	}
	var found cdi.DataSource
	labels, err := w.look(ctx, at, &found)
	if next := found.Spec.Source.DataSource; err == nil && next != nil {
		labels, err = w.look(ctx, Source{dataSources, w.orOwn(next.Namespace), next.Name}, nil)
	}
	if errors.As(err, new(*absent)) || errors.As(err, new(*field.Error)) {
		return "", nil
	}
	if found := labels[labelArchitecture]; err == nil && slices.Contains(architectures, found) {
		return found, nil
	}
	return "", err
}
