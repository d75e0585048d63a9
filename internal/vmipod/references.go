package vmipod

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A pod is made when what it refers to exists. Kubelet would wait for it too, but tells of it in events alone, and looks for it at intervals of up to two
// minutes.

// missingReferences returns the objects of a VMI's pod that do not exist, mostAwaited of them at most, as objects to wait for and as errors.
func (c *Controller) missingReferences(ctx context.Context, vmi *v1.VirtualMachineInstance) (missing []awaitedObject, errs field.ErrorList, err error) {
	references := pod.References(vmi)
	for _, reference := range references[:min(len(references), mostAwaited)] {
		object := awaitedObject{reference.Kind, types.NamespacedName{Namespace: vmi.Namespace, Name: reference.Name}}
		exists, err := c.objectExists(ctx, object)
		if err != nil {
			return nil, nil, err
		}
		if !exists {
			missing, errs = append(missing, object), append(errs, reference.Missing())
		}
	}
	return missing, errs, nil
}

// objectExists reports whether an object exists whose kind need not be watched. This process may not read Secrets and ConfigMaps, since RBAC cannot tell their
// metadata from their data. A dry run of a create says whether there is one of the name. A quota or a webhook that refuses it comes first: then the answer is
// true, and kubelet waits for the object.
func (c *Controller) objectExists(ctx context.Context, object awaitedObject) (exists bool, err error) {
	if !possible(object.Name) {
		return false, nil
	}
	of := metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}
	switch object.kind {
	case pod.KindServiceAccount:
		found, err := get(ctx, c.Live, object.NamespacedName, &corev1.ServiceAccount{})
		return found != nil, err
	case kindNetwork:
		definition, err := c.networkDefinition(ctx, object.NamespacedName)
		return definition != nil, err
	case pod.KindSecret:
		err = c.Live.Create(ctx, &corev1.Secret{ObjectMeta: of}, client.DryRunAll)
	case pod.KindConfigMap:
		err = c.Live.Create(ctx, &corev1.ConfigMap{ObjectMeta: of}, client.DryRunAll)
	}
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsAlreadyExists(err) || refused(err):
		return true, nil
	}
	return false, fmt.Errorf("looking for %s '%s': %w", object.kind, object.Name, err)
}
