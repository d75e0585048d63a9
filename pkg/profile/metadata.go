package profile

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/internal/message"
	"github.com/kilnvm/kiln/pkg/preset"
	"github.com/kilnvm/kiln/pkg/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// checkMetadata checks labels and annotations: their syntax, which the API server checks only in the metadata of objects, and whether a profile may set them.
func (r *reader) checkMetadata() {
	at, given := templatePath.Child("metadata"), r.profile.Spec.Template.Metadata
	for _, key := range slices.Sorted(maps.Keys(given.Labels)) {
		findings := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(given.Labels[key])...)
		r.checkMetadataKey(at.Child("labels").Key(key), key, findings)
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(given.Annotations)) {
		size += len(key) + len(given.Annotations[key])
		r.checkMetadataKey(at.Child("annotations").Key(key), key, validation.IsQualifiedName(strings.ToLower(key)))
	}
	if size > apivalidation.TotalAnnotationSizeLimitB {
		r.addError(field.TooLong(at.Child("annotations"), "", apivalidation.TotalAnnotationSizeLimitB).WithOrigin("profile/metadata"))
	}
}

// checkMetadataKey judges one label or annotation. findings are the mistakes of its syntax.
func (r *reader) checkMetadataKey(at *field.Path, key string, findings []string) {
	if len(findings) > 0 {
		r.addError(field.Invalid(at, message.Short(key), strings.Join(findings, "; ")).WithOrigin("profile/metadata"))
	}
	if Reserved(key) {
		r.addError(field.Forbidden(at, "records or controls how a VMI is admitted: a profile may not fill it").WithOrigin("profile/reserved-key"))
	}
}

// Reserved reports whether a label or annotation records a fact about a VMI, or controls what is done with the VMI. No profile may set one: the VMI would carry
// the record of another VMI, or a tenant's profile would have the rights of the controller, which creates the VMIs of VMs.
//
// Of Kiln's own keys a profile may only set the number of NUMA nodes, which describes the guest. All other keys record facts, or belong to other kinds.
func Reserved(key string) bool {
	if strings.HasPrefix(key, v1alpha1.Prefix) {
		return key != v1alpha1.AnnotationNUMACells
	}
	return validate.ReservedLabel(key) || slices.Contains(controlling, key) ||
		slices.ContainsFunc(controllingPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// controllingPrefixes begin the annotations that presets leave behind, and those with which KubeVirt's tests make a launcher fail.
var controllingPrefixes = []string{preset.AppliedPrefix, "kubevirt.io/func-test-"}

// controlling are the other keys of KubeVirt, besides those that pkg/validate refuses on every VMI of a user. Its controllers find VMIs and pods by the
// labels, and keep their state in the annotations.
var controlling = []string{
	// What instancetype, preference, presets and VM a VMI has.
	v1.InstancetypeAnnotation, v1.ClusterInstancetypeAnnotation, v1.PreferenceAnnotation, v1.ClusterPreferenceAnnotation,
	preset.Exclude, // presets are over when profiles fill
	v1.VirtualMachineGenerationAnnotation, v1.VirtualMachinePoolRevisionName, v1.DeprecatedVirtualMachineNameLabel, v1.VirtualMachineInstanceIDLabel,
	v1.ControllerAPILatestVersionObservedAnnotation, v1.ControllerAPIStorageVersionObservedAnnotation, v1.KubeVirtGenerationAnnotation,
	v1.RestoreRunStrategy, v1.DeprecatedNonRootVMIAnnotation, v1.EphemeralBackupObject, v1.EphemeralProvisioningObject,
	// The hardware of a VMI that exists.
	v1.PciTopologyVersionAnnotation, v1.PciInterfaceSlotCountAnnotation, v1.MemoryOverheadAnnotationBytes,
	// Where a VMI is, and where it goes.
	v1.OutdatedLauncherImageLabel, v1.MigrationSelectorLabel, v1.MigrationNameLabel, v1.MigrationJobNameAnnotation, v1.CreateMigrationTarget,
	v1.MigrationTransportUnixAnnotation, v1.MigrationTargetReadyTimestamp, v1.EvacuationMigrationAnnotation, v1.EvictionSourceAnnotation,
	v1.WorkloadUpdateMigrationAnnotation, v1.WorkloadUpdateMigrationAbortionAnnotation, v1.VolumesUpdateMigration,
	// What the pod of a VMI asks for.
	v1.VirtualMachinePodCPULimitsLabel, v1.VirtualMachinePodMemoryRequestsLabel,
}

// ownLabels returns the labels of a VMI without those that profiles filled. A tenant may write the annotation, too. Then profiles select the VMI as if it did
// not have these labels, which the tenant could have left out as well.
func ownLabels(vmi *v1.VirtualMachineInstance) labels.Set {
	filled := vmi.Annotations[v1alpha1.AnnotationProfileLabels]
	if filled == "" {
		return vmi.Labels
	}
	own := labels.Set(maps.Clone(vmi.Labels))
	for key := range strings.SplitSeq(filled, ",") {
		delete(own, key)
	}
	return own
}

// recordLabels adds the keys of labels that were filled to the annotation that names them.
func recordLabels(vmi *v1.VirtualMachineInstance, keys []string) {
	if len(keys) == 0 {
		return
	}
	if before := vmi.Annotations[v1alpha1.AnnotationProfileLabels]; before != "" {
		keys = append(keys, strings.Split(before, ",")...)
	}
	slices.Sort(keys)
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[v1alpha1.AnnotationProfileLabels] = strings.Join(slices.Compact(keys), ",")
}
