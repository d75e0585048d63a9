package snapshot

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/kilnvm/kiln/pkg/nearest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clone "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	api "kubevirt.io/api/snapshot/v1beta1"
)

// The specs of snapshots, restores and clones are judged when they are created. Controllers judge them again, because a webhook may have been down.

// longestDeadline is the longest time that a snapshot may take.
const longestDeadline = 24 * time.Hour

// macForm is the form of a unicast MAC address.
var macForm = regexp.MustCompile(`^[0-9a-fA-F][02468aceACE]([:-][0-9a-fA-F]{2}){5}$`)

// virtualMachines is the group and kind of sources and targets.
var virtualMachines = corev1.TypedLocalObjectReference{APIGroup: &v1.GroupVersion.Group, Kind: v1.VirtualMachineGroupVersionKind.Kind}

// CheckSnapshot returns the mistakes in the spec of a snapshot.
func CheckSnapshot(spec *api.VirtualMachineSnapshotSpec) (errs field.ErrorList) {
	at := field.NewPath("spec")
	errs = checkReference(&spec.Source, at.Child("source"), virtualMachines)
	if policy := spec.DeletionPolicy; policy != nil {
		errs = append(errs, checkOneOf(at.Child("deletionPolicy"), *policy, api.VirtualMachineSnapshotContentDelete, api.VirtualMachineSnapshotContentRetain)...)
	}
	if of := spec.FailureDeadline; of != nil && (of.Duration < 0 || of.Duration > longestDeadline) {
		errs = append(errs, field.Invalid(at.Child("failureDeadline"), of.Duration.String(), fmt.Sprintf("must be from 0s, for none, to %s", longestDeadline)))
	}
	for _, err := range errs {
		_ = err.WithOrigin("snapshot/form")
	}
	return errs
}

// CheckRestore returns the mistakes in the spec of a restore.
func CheckRestore(spec *api.VirtualMachineRestoreSpec) (errs field.ErrorList) {
	at := field.NewPath("spec")
	errs = checkReference(&spec.Target, at.Child("target"), virtualMachines)
	if spec.VirtualMachineSnapshotName == "" {
		errs = append(errs, field.Required(at.Child("virtualMachineSnapshotName"), "name the VirtualMachineSnapshot"))
	} else {
		errs = append(errs, checkReferredName(at.Child("virtualMachineSnapshotName"), spec.VirtualMachineSnapshotName)...)
	}
	if policy := spec.TargetReadinessPolicy; policy != nil {
		errs = append(errs, checkOneOf(at.Child("targetReadinessPolicy"), *policy, api.VirtualMachineRestoreStopTarget,
			api.VirtualMachineRestoreWaitGracePeriodAndFail, api.VirtualMachineRestoreFailImmediate, api.VirtualMachineRestoreWaitEventually)...)
	}
	if policy := spec.VolumeRestorePolicy; policy != nil {
		errs = append(errs, checkOneOf(at.Child("volumeRestorePolicy"), *policy, api.VolumeRestorePolicyRandomizeNames, api.VolumeRestorePolicyInPlace,
			api.VolumeRestorePolicyPrefixTargetName)...)
	}
	if policy := spec.VolumeOwnershipPolicy; policy != nil {
		errs = append(errs, checkOneOf(at.Child("volumeOwnershipPolicy"), *policy, api.VolumeOwnershipPolicyVm, api.VolumeOwnershipPolicyNone)...)
	}
	for i, override := range spec.VolumeRestoreOverrides {
		of := at.Child("volumeRestoreOverrides").Index(i)
		if override.VolumeName == "" {
			errs = append(errs, field.Required(of.Child("volumeName"), "name the volume"))
		}
		if override.RestoreName == "" && override.Annotations == nil && override.Labels == nil {
			errs = append(errs, field.Required(of, "set restoreName, labels or annotations"))
		}
		if override.RestoreName != "" {
			errs = append(errs, checkName(of.Child("restoreName"), override.RestoreName)...)
		}
	}
	errs = append(errs, checkPatches(spec.Patches, at.Child("patches"))...)
	for _, err := range errs {
		_ = err.WithOrigin("restore/form")
	}
	return errs
}

// CheckClone returns the mistakes in the spec of a clone.
func CheckClone(spec *clone.VirtualMachineCloneSpec) (errs field.ErrorList) {
	at := field.NewPath("spec")
	snapshots := corev1.TypedLocalObjectReference{APIGroup: &api.SchemeGroupVersion.Group, Kind: "VirtualMachineSnapshot"}
	if spec.Source == nil {
		errs = append(errs, field.Required(at.Child("source"), "name a VirtualMachine or a VirtualMachineSnapshot"))
	} else {
		errs = append(errs, checkReference(spec.Source, at.Child("source"), virtualMachines, snapshots)...)
	}
	if spec.Target != nil && spec.Target.Name != "" {
		errs = append(errs, checkReference(spec.Target, at.Child("target"), virtualMachines)...)
	}
	if spec.Source != nil && spec.Target != nil && spec.Source.Kind == spec.Target.Kind && spec.Source.Name == spec.Target.Name {
		errs = append(errs, field.Invalid(at.Child("target", "name"), spec.Target.Name, "must be another VM than the source"))
	}
	errs = append(errs, checkFilters(spec.LabelFilters, at.Child("labelFilters"))...)
	errs = append(errs, checkFilters(spec.AnnotationFilters, at.Child("annotationFilters"))...)
	errs = append(errs, checkFilters(spec.Template.LabelFilters, at.Child("template", "labelFilters"))...)
	errs = append(errs, checkFilters(spec.Template.AnnotationFilters, at.Child("template", "annotationFilters"))...)
	for _, nic := range slices.Sorted(maps.Keys(spec.NewMacAddresses)) {
		if mac := spec.NewMacAddresses[nic]; mac != "" && !macForm.MatchString(mac) {
			errs = append(errs, field.Invalid(at.Child("newMacAddresses").Key(nic), mac, "must be a unicast MAC address such as '02:00:00:00:00:01'"))
		}
	}
	if policy := spec.VolumeNamePolicy; policy != nil {
		errs = append(errs, checkOneOf(at.Child("volumeNamePolicy"), *policy, clone.VolumeNamePolicyRandomizeNames, clone.VolumeNamePolicyPrefixTargetName)...)
	}
	errs = append(errs, checkPatches(spec.Patches, at.Child("patches"))...)
	for _, err := range errs {
		_ = err.WithOrigin("clone/form")
	}
	return errs
}

// checkReference judges a source or target, which must have one of the kinds. The group of a misspelt kind is compared with the group of the kind that was
// meant, so that one answer has all mistakes.
func checkReference(of *corev1.TypedLocalObjectReference, at *field.Path, kinds ...corev1.TypedLocalObjectReference) (errs field.ErrorList) {
	if of.APIGroup == nil {
		return field.ErrorList{field.Required(at.Child("apiGroup"), "set '"+*kinds[0].APIGroup+"'")}
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.Kind)
	}
	meant := of.Kind
	if !slices.Contains(names, of.Kind) {
		errs = append(errs, nearest.Unsupported(at.Child("kind"), of.Kind, names))
		meant = nearest.Name(of.Kind, names)
	}
	i := slices.IndexFunc(kinds, func(kind corev1.TypedLocalObjectReference) bool { return kind.Kind == meant })
	if i >= 0 && *kinds[i].APIGroup != *of.APIGroup {
		errs = append(errs, nearest.Unsupported(at.Child("apiGroup"), *of.APIGroup, []string{*kinds[i].APIGroup}))
	}
	return append(errs, checkReferredName(at.Child("name"), of.Name)...)
}

// checkReferredName judges the name of an object that should exist.
func checkReferredName(at *field.Path, text string) field.ErrorList {
	if why := validation.IsDNS1123Subdomain(text); text != "" && len(why) > 0 {
		return field.ErrorList{field.Invalid(at, text, nearest.NoObject+": "+why[0])}
	} else if text == "" {
		return field.ErrorList{field.Required(at, "name the object")}
	}
	return nil
}

func checkName(at *field.Path, text string) (errs field.ErrorList) {
	for _, mistake := range validation.IsDNS1123Subdomain(text) {
		errs = append(errs, field.Invalid(at, text, mistake))
	}
	return errs
}

func checkOneOf[T ~string](at *field.Path, value T, all ...T) field.ErrorList {
	if slices.Contains(all, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, all)}
}
