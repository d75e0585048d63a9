package resolve

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// A VM gets the architecture of the image that its data volumes copy, if neither the VM nor its preference names one. A label of the image's DataSource names
// it. An annotation keeps it from then on, because a label that changes must not change the VM.

// labelArchitecture is the label that CDI and the importers of images put on a DataSource.
const labelArchitecture = "template.kubevirt.io/architecture"

// inferArchitecture returns the architecture of the first image that has the label, or an empty string if no image has it. It skips images that do not exist,
// and stops at an image that the author of the request may not read.
func (r Resolver) inferArchitecture(ctx context.Context, vm, old *v1.VirtualMachine, preference *instancetype.Preference) (string, error) {
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
	reader := sourceReader{Resolver: r, ref: &reference{namespace: vm.Namespace, vm: vm}}
	all := reader.imageSources()
	wanted := imageAccess{sourceReader: reader, names: map[string]string{}}
	for _, at := range all {
		wanted.addName(at)
	}
	for _, at := range all {
		found, err := wanted.labelledArchitecture(ctx, at)
		if errors.As(err, new(*field.Error)) {
			return "", nil // not an error: the VM gets the default architecture
		}
		if err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}

// imageSources returns the DataSources that the data volumes of a VM copy.
func (r sourceReader) imageSources() (all []Source) {
	for i := range r.ref.vm.Spec.DataVolumeTemplates {
		ref := r.ref.vm.Spec.DataVolumeTemplates[i].Spec.SourceRef
		if ref == nil || !strings.EqualFold(ref.Kind, cdi.DataVolumeDataSource) {
			continue
		}
		at := Source{sourceKind: dataSources, Namespace: r.ref.namespace, Name: ref.Name}
		if ref.Namespace != nil {
			at.Namespace = r.orOwnNamespace(*ref.Namespace)
		}
		all = append(all, at)
	}
	return all
}

// imageAccess makes one SubjectAccessReview for each namespace, however many of its images a VM copies. The review is about the image if it is the only one
// of the namespace, else about all DataSources of the namespace. So a request with many data volumes does not cost more.
type imageAccess struct {
	sourceReader
	// names has the name to review for each namespace: an image, or anyName.
	names map[string]string
}

func (r imageAccess) addName(at Source) {
	if known, found := r.names[at.Namespace]; found && known != at.Name {
		at.Name = anyName
	}
	r.names[at.Namespace] = at.Name
}

// readPermitted reviews the right that names has for the namespace, which may be the right to all its DataSources. Unlike sourceReader.readPermitted, it
// reviews no further rights if the image does not exist, because a VM does not wait for an architecture.
func (r imageAccess) readPermitted(ctx context.Context, at Source, into any) (map[string]string, error) {
	r.addName(at)
	if err := r.checkRight(ctx, Source{at.sourceKind, at.Namespace, r.names[at.Namespace]}); err != nil {
		return nil, err
	}
	return r.readSource(ctx, at, into)
}

// labelledArchitecture returns the architecture of a DataSource, or of the DataSource that it refers to. It follows one reference, as CDI does.
func (r imageAccess) labelledArchitecture(ctx context.Context, at Source) (string, error) {
	var found cdi.DataSource
	labels, err := r.readPermitted(ctx, at, &found)
	if next := found.Spec.Source.DataSource; err == nil && next != nil {
		labels, err = r.readPermitted(ctx, Source{dataSources, r.orOwnNamespace(next.Namespace), next.Name}, nil)
	}
	if errors.As(err, new(*notFound)) {
		return "", nil
	}
	if found := labels[labelArchitecture]; err == nil && slices.Contains(hardware.Architectures, found) {
		return found, nil
	}
	return "", err
}
