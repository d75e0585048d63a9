package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: dataVolumeTemplates of a VM.
// The VM uses each of its templates, and a template gives the size and the initial content.
// The controller makes a DataVolume of each template if guests run in pods, and CDI fills it. A VM that is admitted here is one that KubeVirt and CDI accept.

var templateRules = []vmRule{
	{dataVolumeTemplates, []Rule{
		{Name: "disks/template-name"},
		{Name: "disks/template-unused"},
		{Name: "disks/template-namespace"},
		{Name: "disks/template-size"},
		{Name: "disks/template-sizes"},
		{Name: "disks/template-populated"},
		{Name: "disks/template-source"},
		{Name: "disks/template-source-empty"},
		{Name: "disks/template-sources"},
	}},
}

// dataVolumeTemplates is ValidateDataVolumeTemplate and validateVirtualMachineDataVolumeTemplateNamespace. Templates that an update
// leaves alone keep their namespace: a VM that is older than the rule must stay editable.
func dataVolumeTemplates(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	// The VM uses a template through its data volume, or through the claim of the same name that CDI creates for it.
	used := map[string]bool{}
	if vm.Spec.Template != nil {
		for _, volume := range vm.Spec.Template.Spec.Volumes {
			if volume.DataVolume != nil {
				used[volume.DataVolume.Name] = true
			}
			if volume.PersistentVolumeClaim != nil {
				used[volume.PersistentVolumeClaim.ClaimName] = true
			}
		}
	}
	// equality.Semantic takes nil and empty lists for equal: decoding may turn one into the other.
	unchanged := old != nil && equality.Semantic.DeepEqual(vm.Spec.DataVolumeTemplates, old.Spec.DataVolumeTemplates)
	for i := range vm.Spec.DataVolumeTemplates {
		template, at := &vm.Spec.DataVolumeTemplates[i], ofVM.Child("dataVolumeTemplates").Index(i)
		if template.Name == "" {
			errs = append(errs, field.Required(at.Child("metadata", "name"), "name the volume").WithOrigin("disks/template-name"))
		} else if !used[template.Name] {
			errs = append(errs, field.Invalid(at.Child("metadata", "name"), template.Name,
				"no volume of the template uses it: add one of type dataVolume, or remove this").WithOrigin("disks/template-unused"))
		}
		if template.Namespace != "" && template.Namespace != vm.Namespace && !unchanged {
			errs = append(errs, field.Invalid(at.Child("metadata", "namespace"), template.Namespace,
				"must be the VM's own namespace '"+vm.Namespace+"'").WithOrigin("disks/template-namespace"))
		}
		errs = append(errs, dataVolume(template, at.Child("spec"))...)
	}
	return errs
}

// dataVolume is validateDataVolume and validateNumberOfSources. A path names a field that the user wrote: source unless only sourceRef
// is set.
func dataVolume(template *v1.DataVolumeTemplateSpec, path *field.Path) (errs field.ErrorList) {
	spec := template.Spec
	switch {
	case spec.PVC == nil && spec.Storage == nil:
		errs = append(errs, field.Required(path.Child("storage"), "give the size of the volume in storage or pvc").WithOrigin("disks/template-size"))
	case spec.PVC != nil && spec.Storage != nil:
		errs = append(errs, field.Forbidden(path.Child("pvc"), "cannot be combined with storage: remove one of them").WithOrigin("disks/template-sizes"))
	}
	at := path.Child("source")
	if spec.Source == nil && spec.SourceRef != nil {
		at = path.Child("sourceRef")
	}
	// With a populator and a source, which of them is a mistake is unknown: the source is judged no further.
	switch populated, given := hasDataSource(template), spec.Source != nil || spec.SourceRef != nil; {
	case populated && given:
		return append(errs, field.Forbidden(at,
			"cannot be combined with the dataSource of pvc or storage: remove one of them").WithOrigin("disks/template-populated"))
	case !populated && !given:
		return append(errs, field.Required(at, "give source or sourceRef, the initial content of the volume").WithOrigin("disks/template-source"))
	case spec.Source == nil:
		return errs
	}
	set := dataSources(template)
	switch {
	case len(set) == 0:
		errs = append(errs, field.Required(at, "give one source, for example registry or blank").WithOrigin("disks/template-source-empty"))
	case len(set) > 1:
		errs = append(errs, field.Forbidden(at.Child(set[1]), "cannot be combined with "+set[0]+": a volume has one source").WithOrigin("disks/template-sources"))
	}
	return errs
}

// hasDataSource reports whether the claim has its own data source (a volume populator).
func hasDataSource(template *v1.DataVolumeTemplateSpec) bool {
	var source *corev1.TypedLocalObjectReference
	var reference *corev1.TypedObjectReference
	if claim := template.Spec.PVC; claim != nil {
		source, reference = claim.DataSource, claim.DataSourceRef
	} else if storage := template.Spec.Storage; storage != nil {
		source, reference = storage.DataSource, storage.DataSourceRef
	}
	return source != nil || reference != nil
}

// dataSources returns the names of the sources that are set, in the order of CDI's DataVolumeSource.
func dataSources(template *v1.DataVolumeTemplateSpec) (set []string) {
	s := template.Spec.Source
	for _, source := range []struct {
		name string
		set  bool
	}{
		{"http", s.HTTP != nil}, {"s3", s.S3 != nil}, {"gcs", s.GCS != nil}, {"registry", s.Registry != nil}, {"pvc", s.PVC != nil},
		{"upload", s.Upload != nil}, {"blank", s.Blank != nil}, {"imageio", s.Imageio != nil}, {"vddk", s.VDDK != nil}, {"snapshot", s.Snapshot != nil},
	} {
		if source.set {
			set = append(set, source.name)
		}
	}
	return set
}
