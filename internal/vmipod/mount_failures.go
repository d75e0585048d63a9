package vmipod

import (
	"context"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mountFailures finds the events that say why the volumes of a pod are not mounted. Events are read only for a pod that starts late, and never watched: a
// cluster has too many.
type mountFailures struct {
	*environment
	// limits bound how often the events of a pod are read.
	limits rateLimits
}

// mountReasons are the reasons of events that say why a pod with a node has no container: from kubelet, and from the controller that attaches volumes.
var mountReasons = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"}

// mountEvents bounds the events of a pod that are read. Kubelet repeats an event instead of writing another one.
const mountEvents = 100

// mountInterval is the time between two reads of the events of a pod: no watched object changes meanwhile. It bounds the searches of the API server for a
// tenant who changes his objects all the time and has a namespace full of events.
const mountInterval = time.Minute

// describeFailure returns the newest event that says why a volume is not mounted; empty if no event does. Between two reads it returns the message of the VMI's
// condition.
func (m *mountFailures) describeFailure(ctx context.Context, o observed.Objects, done *outcome) string {
	if wait := m.limits.timeUntilNext(o.Key, m.Now(), rate.Every(mountInterval), 1); wait > 0 {
		done.requeueAfter(wait)
		return currentMessage(o.VMI, v1alpha1.ReasonPodStarting)
	}
	done.requeueAfter(mountInterval)
	return m.newestFailure(ctx, o.Pod)
}

// newestFailure reads the newest event. An error is only logged, because the message without an event says where to look.
func (m *mountFailures) newestFailure(ctx context.Context, pod *corev1.Pod) string {
	list := &corev1.EventList{}
	if err := m.Live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(pod.UID)},
		client.Limit(mountEvents)); err != nil {
		ctrl.LoggerFrom(ctx).Info("the events of the pod cannot be read", "reason", err.Error())
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		event := &list.Items[i]
		if slices.Contains(mountReasons, event.Reason) && (newest == nil || lastSeen(event).After(lastSeen(newest))) {
			newest = event
		}
	}
	if newest == nil {
		return ""
	}
	return condition.OneLine(newest.Reason + ": " + newest.Message)
}

// lastSeen returns when an event happened last.
func lastSeen(event *corev1.Event) time.Time {
	at := event.LastTimestamp.Time
	if event.EventTime.After(at) {
		at = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
