package placement

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mountReasons are the reasons of events that say why a bound pod has no container: of kubelet, and of the controller that attaches volumes.
var mountReasons = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"}

// mountEvents bounds the events of a pod that are read. Kubelet repeats an event instead of writing another one.
const mountEvents = 100

// mountInterval is the time after which a pod whose volumes are not mounted is looked at again: no watched object changes meanwhile.
const mountInterval = time.Minute

// mountFailure returns the newest event that says why the volumes of a pod are not mounted, empty if there is none. Events are read for a pod that kubelet
// has not started for quietStart, and never watched: a cluster has too many. An error is logged alone: the status says where to look.
func (c *Controller) mountFailure(ctx context.Context, pod *corev1.Pod) string {
	list := &corev1.EventList{}
	if err := c.Live.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(pod.UID)},
		client.Limit(mountEvents)); err != nil {
		ctrl.LoggerFrom(ctx).Info("the events of the pod cannot be read", "reason", err.Error())
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		event := &list.Items[i]
		if slices.Contains(mountReasons, event.Reason) && (newest == nil || seenAt(event).After(seenAt(newest))) {
			newest = event
		}
	}
	if newest == nil {
		return ""
	}
	return plain(newest.Reason + ": " + newest.Message)
}

// seenAt returns when an event was seen last.
func seenAt(event *corev1.Event) time.Time {
	at := event.LastTimestamp.Time
	if event.EventTime.After(at) {
		at = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
