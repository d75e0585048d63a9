package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectLookup looks for the objects that a pod refers to. A pod is created when they exist. Kubelet would wait for them too, but it reports that only in
// events, and looks for them at intervals of up to two minutes.
type objectLookup struct{ *environment }

// missingReferences returns the objects of a VMI's pod that do not exist, at most mostAwaited, as objects to wait for and as errors.
func (l objectLookup) missingReferences(ctx context.Context, vmi *v1.VirtualMachineInstance) (missing []awaitedObject, errs field.ErrorList, err error) {
	references := pod.References(vmi)
	for _, reference := range references[:min(len(references), mostAwaited)] {
		object := awaitedObject{reference.Kind, types.NamespacedName{Namespace: vmi.Namespace, Name: reference.Name}}
		exists, err := l.objectExists(ctx, object)
		if err != nil {
			return nil, nil, err
		}
		if !exists {
			missing, errs = append(missing, object), append(errs, reference.Missing())
		}
	}
	return missing, errs, nil
}

// objectExists reports whether an object exists. This process may not read Secrets and ConfigMaps, because RBAC cannot tell their metadata from their data: the
// dry run of a create says whether one of the name exists. If a quota or a webhook refuses the dry run, the answer is true, and kubelet waits for the object.
func (l objectLookup) objectExists(ctx context.Context, object awaitedObject) (exists bool, err error) {
	if !podinput.IsPossibleName(object.Name) {
		return false, nil
	}
	meta := metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}
	switch object.kind {
	case pod.KindServiceAccount:
		found, err := objects.GetOrNil(ctx, l.Live, object.NamespacedName, &corev1.ServiceAccount{})
		return found != nil, err
	case kindNetwork:
		definition, err := l.podInputs().NetworkDefinition(ctx, object.NamespacedName)
		return definition != nil, err
	case pod.KindSecret:
		err = l.Live.Create(ctx, &corev1.Secret{ObjectMeta: meta}, client.DryRunAll)
	case pod.KindConfigMap:
		err = l.Live.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, client.DryRunAll)
	}
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsAlreadyExists(err) || isRefused(err):
		return true, nil
	}
	return false, fmt.Errorf("looking for %s '%s': %w", object.kind, object.Name, err)
}
