package podinput

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MostReferences bounds the objects that are looked up for a VMI, because a tenant may write hundreds of names.
const MostReferences = 16

// MissingReferences returns the Secrets, ConfigMaps and the ServiceAccount of a VMI's pod that do not exist. It looks for at most MostReferences, and live
// makes the dry runs.
func (r Reader) MissingReferences(ctx context.Context, live client.Client, vmi *v1.VirtualMachineInstance) (missing []pod.Reference, err error) {
	references := pod.References(vmi)
	for _, reference := range references[:min(len(references), MostReferences)] {
		exists, err := ReferenceExists(ctx, live, reference.Kind, types.NamespacedName{Namespace: vmi.Namespace, Name: reference.Name})
		if err != nil {
			return nil, err
		}
		if !exists {
			missing = append(missing, reference)
		}
	}
	return missing, nil
}

// ReferenceExists reports whether a Secret, a ConfigMap or a ServiceAccount exists. This process may not read Secrets and ConfigMaps, because RBAC cannot tell
// their metadata from their data: the dry run of a create says whether one of the name exists. If a quota or a webhook refuses the dry run, the answer is true,
// and kubelet waits for the object.
func ReferenceExists(ctx context.Context, live client.Client, kind string, key types.NamespacedName) (exists bool, err error) {
	if !IsPossibleName(key.Name) {
		return false, nil
	}
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	switch kind {
	case pod.KindServiceAccount:
		found, err := objects.GetOrNil(ctx, live, key, &corev1.ServiceAccount{})
		return found != nil, err
	case pod.KindSecret:
		err = live.Create(ctx, &corev1.Secret{ObjectMeta: meta}, client.DryRunAll)
	case pod.KindConfigMap:
		err = live.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, client.DryRunAll)
	}
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsAlreadyExists(err) || IsRefused(err):
		return true, nil
	}
	return false, fmt.Errorf("looking for %s '%s': %w", kind, key.Name, err)
}

// IsRefused reports whether only a user or an administrator can make a request succeed: quotas, LimitRanges and Pod Security answer with Forbidden, and a
// webhook may not answer.
func IsRefused(err error) bool {
	return outage.WebhookOf(err) != "" || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || condition.Oversized(err)
}
