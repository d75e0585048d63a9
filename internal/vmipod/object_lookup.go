package vmipod

import (
	"context"

	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// objectLookup looks for the objects that a pod refers to. A pod is created when they exist. Kubelet would wait for them too, but it reports that only in
// events, and looks for them at intervals of up to two minutes.
type objectLookup struct{ *environment }

// missingReferences returns the objects of a VMI's pod that do not exist, at most mostAwaited, as objects to wait for and as errors.
func (l objectLookup) missingReferences(ctx context.Context, vmi *v1.VirtualMachineInstance) (missing []awaitedObject, errs field.ErrorList, err error) {
	references, err := l.podInputs().MissingReferences(ctx, l.Live, vmi)
	for _, reference := range references {
		missing = append(missing, awaitedObject{reference.Kind, types.NamespacedName{Namespace: vmi.Namespace, Name: reference.Name}})
		errs = append(errs, reference.Missing())
	}
	return missing, errs, err
}

// objectExists reports whether an object exists.
func (l objectLookup) objectExists(ctx context.Context, object awaitedObject) (exists bool, err error) {
	if object.kind == kindNetwork {
		if !podinput.IsPossibleName(object.Name) {
			return false, nil
		}
		definition, err := l.podInputs().NetworkDefinition(ctx, object.NamespacedName)
		return definition != nil, err
	}
	return podinput.ReferenceExists(ctx, l.Live, object.kind, object.NamespacedName)
}
