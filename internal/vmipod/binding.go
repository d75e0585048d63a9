package vmipod

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A claim of a storage class with WaitForFirstConsumer is bound when the scheduler has chosen a node for its pod. Until the provisioner has made the volume the
// pod has no node, and its status does not say why.

// quietScheduling is the time that the scheduler has for a pod before its claims are looked at.
const quietScheduling = time.Second

// bindingInterval is the time between two looks at the claims of a pod.
const bindingInterval = 10 * time.Second

// lookAtClaims returns which claims of a pod without a node are not bound, or between two looks what the condition of the VMI says already; empty if the
// scheduler has said why the pod has no node, or may be about to choose one.
func (c *Controller) lookAtClaims(ctx context.Context, s seen, o *outcome) string {
	if s.pod == nil || !recorded(s.vmi, s.pod.UID) || s.pod.Spec.NodeName != "" || podCondition(s.pod, corev1.PodScheduled) != nil {
		return ""
	}
	if left := quietScheduling - c.Now().Sub(s.pod.CreationTimestamp.Time); left > 0 {
		o.again(min(left, quietScheduling)) // a clock that is behind must not make it longer
		return ""
	}
	if wait := c.bindingLimits.wait(s.key, c.Now(), rate.Every(bindingInterval), 1); wait > 0 {
		o.again(wait)
		if said := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); said != nil && said.Reason == v1alpha1.ReasonWaitingForVolumeBinding {
			return said.Message
		}
		return ""
	}
	o.again(bindingInterval)
	unbound, err := c.unboundClaims(ctx, s)
	if err != nil { // it keeps nothing from starting
		ctrl.LoggerFrom(ctx).Info("the claims of the pod cannot be read", "reason", err.Error())
	}
	if len(unbound) == 0 {
		return ""
	}
	return fmt.Sprintf("the pod waits until its volumes are bound, of PersistentVolumeClaim %s: kubectl describe pvc -n %s",
		strings.Join(unbound, ", "), s.key.Namespace)
}

// unboundClaims returns the claims of a pod that are not bound, in quotes. The cache has no volumes of pods.
func (c *Controller) unboundClaims(ctx context.Context, s seen) (unbound []string, err error) {
	made, err := get(ctx, c.Live, podOf(s.key), &corev1.Pod{})
	if err != nil || made == nil || made.UID != s.pod.UID {
		return nil, err
	}
	for _, name := range claimsOf(made) {
		claim, err := get(ctx, c.Live, types.NamespacedName{Namespace: s.key.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim != nil && claim.Status.Phase == corev1.ClaimPending {
			unbound = append(unbound, fmt.Sprintf("'%s'", name))
		}
	}
	return unbound, nil
}

// claimsOf returns the claims of a pod's volumes, mostAwaited of them at most.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && len(names) < mostAwaited {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}
