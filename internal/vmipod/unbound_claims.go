package vmipod

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// unboundClaims finds the claims for which a pod without a node waits. A claim of a storage class with WaitForFirstConsumer is bound when the scheduler has
// chosen a node for its pod. Until the provisioner has made the volume the pod has no node, and its status does not say why.
type unboundClaims struct {
	*environment
	// limits bound how often the claims of a pod are read.
	limits rateLimits
}

const (
	// quietScheduling is the time that the scheduler has for a pod before its claims are read.
	quietScheduling = time.Second
	// bindingInterval is the time between two reads of the claims of a pod.
	bindingInterval = 10 * time.Second
)

// describeClaims returns which claims of a pod without a node are not bound. It returns nothing if the scheduler has said why the pod has no node, or may still
// choose one. Between two reads it returns the message of the VMI's condition.
func (u *unboundClaims) describeClaims(ctx context.Context, o observed.Objects, done *outcome) string {
	pod := o.RecordedPod()
	if pod == nil || pod.Spec.NodeName != "" || observed.PodCondition(pod, corev1.PodScheduled) != nil {
		return ""
	}
	if left := quietScheduling - u.Now().Sub(pod.CreationTimestamp.Time); left > 0 {
		done.requeueAfter(min(left, quietScheduling)) // a clock that is behind must not make the wait longer
		return ""
	}
	if wait := u.limits.timeUntilNext(o.Key, u.Now(), rate.Every(bindingInterval), 1); wait > 0 {
		done.requeueAfter(wait)
		return currentMessage(o.VMI, v1alpha1.ReasonWaitingForVolumeBinding)
	}
	done.requeueAfter(bindingInterval)
	unbound, err := u.findUnbound(ctx, o)
	if err != nil { // the guest can start all the same
		ctrl.LoggerFrom(ctx).Info("the claims of the pod cannot be read", "reason", err.Error())
	}
	if len(unbound) == 0 {
		return ""
	}
	return fmt.Sprintf("the pod waits for PersistentVolumeClaim %s to be bound: kubectl describe pvc -n %s",
		strings.Join(unbound, ", "), o.Key.Namespace)
}

// findUnbound returns the claims of a pod that are not bound, in quotes. The cache has no volumes of pods.
func (u *unboundClaims) findUnbound(ctx context.Context, o observed.Objects) (unbound []string, err error) {
	pod, err := objects.GetOrNil(ctx, u.Live, observed.PodKey(o.Key), &corev1.Pod{})
	if err != nil || pod == nil || pod.UID != o.Pod.UID {
		return nil, err
	}
	for _, name := range claimNames(pod) {
		claim, err := objects.GetOrNil(ctx, u.Live, types.NamespacedName{Namespace: o.Key.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, err
		}
		if claim != nil && claim.Status.Phase == corev1.ClaimPending {
			unbound = append(unbound, fmt.Sprintf("'%s'", name))
		}
	}
	return unbound, nil
}

// claimNames returns the claims of a pod's volumes, at most mostAwaited.
func claimNames(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && len(names) < mostAwaited {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}
