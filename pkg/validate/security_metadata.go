package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: metadata.labels and metadata.annotations of a guest.
// Labels by which KubeVirt's components find their guests are not for users to set; annotations that run things on the
// host need their gates.

var labelRules = []metadataRule{
	{reservedLabels, []Rule{
		{Name: "security/reserved-label", ControllersMay: true},
	}},
	{gatedAnnotations, []Rule{
		{Name: "security/annotation-gate"},
	}},
	{ignition, []Rule{
		{Name: "security/ignition-architecture"},
	}},
}

// reserved labels steer controllers: whoever sets one on a guest hands it to another node or owner.
var reserved = []string{
	v1.CreatedByLabel,
	v1.MigrationJobLabel,
	v1.NodeNameLabel,
	v1.MigrationTargetNodeNameLabel,
	v1.NodeSchedulable,
	v1.InstallStrategyLabel,
}

func reservedLabels(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, label := range reserved {
		if value, set := vmi.Labels[label]; set {
			errs = append(errs, field.Forbidden(path.Child("metadata", "labels").Key(label),
				"is reserved for controllers: remove the label, whose value is '"+value+"'").WithOrigin("security/reserved-label"))
		}
	}
	return errs
}

// gates of annotations that run a program of the user's choice beside the guest.
var annotationGates = []struct{ annotation, gate string }{
	{v1.IgnitionAnnotation, "ExperimentalIgnitionSupport"},
	{"hooks.kubevirt.io/hookSidecars", "Sidecar"},
}

func gatedAnnotations(vmi *v1.VirtualMachineInstance, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	for _, a := range annotationGates {
		if vmi.Annotations[a.annotation] != "" {
			errs = append(errs, gated(limits, a.gate, path.Child("metadata", "annotations").Key(a.annotation)).WithOrigin("security/annotation-gate")...)
		}
	}
	return errs
}

// ignition: a mainframe's firmware has no files, so that the guest would wait for its configuration.
func ignition(vmi *v1.VirtualMachineInstance, _ config.Limits, path *field.Path) field.ErrorList {
	if vmi.Annotations[v1.IgnitionAnnotation] == "" || vmi.Spec.Architecture != s390x {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("metadata", "annotations").Key(v1.IgnitionAnnotation),
		"needs a fw_cfg device, which architecture 's390x' does not have: remove the annotation").WithOrigin("security/ignition-architecture")}
}

var quoteRules = []judgement[func(*v1.VirtualMachineInstance, config.Defaults, *field.Path) field.ErrorList]{
	{QuoteSocket, []Rule{{Name: "security/quote-socket"}}},
}

// QuoteSocket judges which socket of its host an explicit TDX guest asks for quotes. defaults are those that made the guest
// explicit, which may be older than the cluster's: a VM keeps its own.
func QuoteSocket(vmi *v1.VirtualMachineInstance, defaults config.Defaults, path *field.Path) field.ErrorList {
	if socket := vmi.Annotations[v1.QGSSocketPathAnnotation]; tdx(&vmi.Spec) && socket != defaults.QuoteSocket {
		return field.ErrorList{field.Invalid(path.Child("metadata", "annotations").Key(v1.QGSSocketPathAnnotation), socket,
			"must be the quote service of this cluster, '"+defaults.QuoteSocket+"': correct or remove the annotation").WithOrigin("security/quote-socket")}
	}
	return nil
}

// changedReserved finds reserved labels that an update sets, changes or removes.
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
