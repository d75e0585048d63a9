package create

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// This file sets inferFromVolume of spec.instancetype and spec.preference. Labels of the source of a volume recommend both
// (instancetype.kubevirt.io/default-instancetype and default-preference). Admission reads the labels, not this package.

// inferMatchers sets inferFromVolume if no name is given. Without a flag of the user it sets it only for a volume that can have the labels, and tells
// admission to ignore a failure; then the memory of the manifest counts.
func (b *vmBuilder) inferMatchers() error {
	if mayInfer(b.Instancetype) && b.Memory == "" {
		volume, err := b.inferenceVolume(b.Instancetype.From)
		switch {
		case err == nil && b.Instancetype.inferenceRequested():
			b.vm.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: volume}
			b.vmiSpec().Domain.Memory = nil
		case err == nil:
			b.vm.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: volume, InferFromVolumeFailurePolicy: new(v1.IgnoreInferFromVolumeFailure)}
		case b.Instancetype.inferenceRequested():
			return flagError("infer-instancetype", "%w", err)
		}
	}
	if !mayInfer(b.Preference) {
		return nil
	}
	volume, err := b.inferenceVolume(b.Preference.From)
	switch {
	case err == nil && b.Preference.inferenceRequested():
		b.vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: volume}
	case err == nil:
		b.vm.Spec.Preference = &v1.PreferenceMatcher{InferFromVolume: volume, InferFromVolumeFailurePolicy: new(v1.IgnoreInferFromVolumeFailure)}
	case b.Preference.inferenceRequested():
		return flagError("infer-preference", "%w", err)
	}
	return nil
}

// mayInfer reports whether a matcher is to be inferred: neither is a name given nor is --infer-... false.
func mayInfer(r Reference) bool { return r.Name == "" && (r.Infer == nil || *r.Infer) }

// inferenceVolume returns the name of the volume to infer from: the given one, otherwise the volume with the lowest boot order, otherwise the first volume.
func (b *vmBuilder) inferenceVolume(from string) (string, error) {
	volumes := b.vmiSpec().Volumes
	if from == "" {
		if len(volumes) == 0 {
			return "", errors.New("needs a volume to infer from")
		}
		from = volumes[0].Name
		if len(b.order) > 0 {
			from = b.order[slices.Min(slices.Collect(maps.Keys(b.order)))]
		}
	}
	at := slices.IndexFunc(volumes, func(v v1.Volume) bool { return v.Name == from })
	if at < 0 {
		return "", fmt.Errorf("there is no volume '%s'", from)
	}
	if !b.canRecommend(volumes[at]) {
		return "", fmt.Errorf("volume '%s' recommends nothing: only claims and data volumes that are made of claims, data sources, snapshots or registries do", from)
	}
	return from, nil
}

// canRecommend reports whether the source of a volume can have the labels that recommend an instancetype and a preference, as virtctl's
// volumeValidToInferFrom does. An image from a URL has no labels.
func (b *vmBuilder) canRecommend(volume v1.Volume) bool {
	if volume.PersistentVolumeClaim != nil {
		return true
	}
	for _, template := range b.vm.Spec.DataVolumeTemplates {
		if volume.DataVolume == nil || template.Name != volume.DataVolume.Name {
			continue
		}
		if source := template.Spec.Source; source != nil {
			return source.PVC != nil || source.Registry != nil || source.Snapshot != nil
		}
		return template.Spec.SourceRef != nil
	}
	return false
}
