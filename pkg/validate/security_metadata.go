package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: metadata.labels and metadata.annotations of a VMI, and of the templates in a VM.
// KubeVirt's components find VMIs by the reserved labels, so users must not set them. Some annotations need a feature gate.
// KubeVirt has these rules in ValidateVirtualMachineInstanceMetadata and, for updates, admitVMILabelsUpdate.

var labelRules = []metadataRule{
	{reservedLabels, []Rule{
		{Name: "security/reserved-label", ControllersMay: true},
	}},
	{gatedAnnotations, []Rule{
		{Name: "security/annotation-gate"},
	}},
	{ignition, []Rule{
		{Name: "security/ignition-architecture", NamesArchitecture: true},
	}},
}

// templateMetadataRules judge metadata in a VM that the API server does not judge there. It judges them in the VMI and the data volumes, which it would refuse
// each time a controller creates them. KubeVirt accepts such a VM, which never starts.
var templateMetadataRules = []vmRule{
	{metadataOfTemplates, []Rule{
		{Name: "security/template-labels", KubeVirt: KubeVirtAdmits},
		{Name: "security/template-annotations", KubeVirt: KubeVirtAdmits},
	}},
}

// metadataOfTemplates judges template.metadata and dataVolumeTemplates[].metadata. What an update leaves as it is stays legal: a VM that is older than the
// rule must stay editable.
func metadataOfTemplates(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	if template := vm.Spec.Template; template != nil {
		var was metav1.ObjectMeta
		if old != nil && old.Spec.Template != nil {
			was = old.Spec.Template.ObjectMeta
		}
		errs = append(errs, metadata(template.ObjectMeta, was, ofVM.Child("template", "metadata"))...)
	}
	for i := range vm.Spec.DataVolumeTemplates {
		template := &vm.Spec.DataVolumeTemplates[i]
		var was metav1.ObjectMeta
		if old != nil {
			for k := range old.Spec.DataVolumeTemplates {
				if old.Spec.DataVolumeTemplates[k].Name == template.Name {
					was = old.Spec.DataVolumeTemplates[k].ObjectMeta
				}
			}
		}
		errs = append(errs, metadata(template.ObjectMeta, was, ofVM.Child("dataVolumeTemplates").Index(i).Child("metadata"))...)
	}
	return errs
}

// metadata judges labels and annotations that are not as they were.
func metadata(now, was metav1.ObjectMeta, at *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now.Labels, was.Labels) && equality.Semantic.DeepEqual(now.Annotations, was.Annotations) {
		return nil
	}
	changed := func(given, before map[string]string) map[string]string {
		left := maps.Clone(given)
		maps.DeleteFunc(left, func(key, value string) bool { old, had := before[key]; return had && old == value })
		return left
	}
	errs := labels(changed(now.Labels, was.Labels), at.Child("labels")).WithOrigin("security/template-labels")
	found := annotationKeys(changed(now.Annotations, was.Annotations), at.Child("annotations"))
	if size := annotationBytes(now.Annotations); size > apivalidation.TotalAnnotationSizeLimitB && size > annotationBytes(was.Annotations) {
		found = append(found, tooManyAnnotations(at.Child("annotations")))
	}
	return append(errs, found.WithOrigin("security/template-annotations")...)
}

// annotations judges keys and the size of all, by the limits of the API server.
func annotations(given map[string]string, at *field.Path) field.ErrorList {
	errs := annotationKeys(given, at)
	if annotationBytes(given) > apivalidation.TotalAnnotationSizeLimitB {
		errs = append(errs, tooManyAnnotations(at))
	}
	return errs
}

func tooManyAnnotations(at *field.Path) *field.Error {
	return field.TooLong(at, "", apivalidation.TotalAnnotationSizeLimitB)
}

// annotationKeys judges keys in their order. Upper case is legal in the prefix of a key, too.
func annotationKeys(given map[string]string, at *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		errs = append(errs, named(at.Key(key), key, func(key string) []string { return validation.IsQualifiedName(strings.ToLower(key)) })...)
	}
	return errs
}

// annotationBytes is the size that the API server bounds.
func annotationBytes(given map[string]string) (size int) {
	for key, value := range given {
		size += len(key) + len(value)
	}
	return size
}

// reserved are KubeVirt's restrictedVmiLabels. Controllers act on them: a user who set one could assign the VMI to another node or
// migration.
var reserved = []string{
	v1.CreatedByLabel,
	v1.MigrationJobLabel,
	v1.NodeNameLabel,
	v1.MigrationTargetNodeNameLabel,
	v1.NodeSchedulable,
	v1.InstallStrategyLabel,
}

// ReservedLabel reports whether only controllers may set a label of a VMI.
func ReservedLabel(key string) bool { return slices.Contains(reserved, key) }

// reservedLabels refuses them on create, at each label; KubeVirt reports metadata.labels. Updates are judged by changedReserved.
func reservedLabels(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, label := range reserved {
		if value, set := vmi.Labels[label]; set {
			errs = append(errs, field.Forbidden(path.Child("metadata", "labels").Key(label),
				"is reserved for controllers: remove the label, whose value is '"+value+"'").WithOrigin("security/reserved-label"))
		}
	}
	return errs
}

// annotationGates are the feature gates of annotations in KubeVirt. A hook sidecar is a program of the user's choice, which may change
// the domain; Ignition data reaches the firmware of the VMI.
var annotationGates = []struct{ annotation, gate string }{
	{v1.IgnitionAnnotation, "ExperimentalIgnitionSupport"},
	{"hooks.kubevirt.io/hookSidecars", "Sidecar"},
}

// gatedAnnotations takes an empty annotation for none, as KubeVirt does.
func gatedAnnotations(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, a := range annotationGates {
		if vmi.Annotations[a.annotation] != "" {
			errs = append(errs, gated(limits, a.gate, path.Child("metadata", "annotations").Key(a.annotation)).WithOrigin("security/annotation-gate")...)
		}
	}
	return errs
}

// ignition refuses the annotation on s390x: Ignition reads QEMU's fw_cfg device, which that machine does not have, and would wait for its
// configuration. KubeVirt accepts it, and QEMU does not start.
func ignition(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) field.ErrorList {
	if vmi.Annotations[v1.IgnitionAnnotation] == "" || vmi.Spec.Architecture != s390x {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("metadata", "annotations").Key(v1.IgnitionAnnotation),
		"needs a fw_cfg device, which architecture 's390x' does not have: remove the annotation").WithOrigin("security/ignition-architecture")}
}

var quoteRules = []judgement[func(*v1.VirtualMachineInstance, config.Defaults, *field.Path) field.ErrorList]{
	{quoteSocket, []Rule{{Name: "security/quote-socket", Since: 9}}},
}

// QuoteSocket judges the annotation that names the socket of the quote service on the host of a TDX guest: a tenant must not connect QEMU
// to another socket. KubeVirt overwrites the annotation since v1.9, and does not read it before. defaults are those that made vmi explicit, which may be older
// than the cluster's: a VM keeps the configuration to which it is pinned.
func QuoteSocket(vmi *v1.VirtualMachineInstance, defaults config.Defaults, version config.Version, path *field.Path) field.ErrorList {
	return ofVersion(quoteSocket(vmi, defaults, path), version)
}

func quoteSocket(vmi *v1.VirtualMachineInstance, defaults config.Defaults, path *field.Path) field.ErrorList {
	if socket := vmi.Annotations[v1.QGSSocketPathAnnotation]; tdx(&vmi.Spec) && socket != defaults.QuoteSocket {
		return field.ErrorList{field.Invalid(path.Child("metadata", "annotations").Key(v1.QGSSocketPathAnnotation), socket,
			"must be the quote service of this cluster, '"+defaults.QuoteSocket+"': correct or remove the annotation").WithOrigin("security/quote-socket")}
	}
	return nil
}

// changedReserved refuses updates that set, change or remove a reserved label.
func changedReserved(change GuestChange, _ config.Limits) (errs field.ErrorList) {
	for _, label := range reserved {
		value, set := change.New.Labels[label]
		was, had := change.Old.Labels[label]
		if set != had || value != was {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(label),
				"is reserved for controllers and cannot be changed").WithOrigin("security/reserved-label-change"))
		}
	}
	return errs
}
