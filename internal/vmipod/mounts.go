package vmipod

import (
	"context"
	"slices"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mountReasons are the reasons of events that say why a bound pod has no container: of kubelet, and of the controller that attaches volumes.
var mountReasons = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"}

// mountEvents bounds the events of a pod that are read. Kubelet repeats an event instead of writing another one.
const mountEvents = 100

// mountInterval is the time between two looks at the events of a pod whose volumes are not mounted: no watched object changes meanwhile. It bounds what a
// tenant can have the API server search who changes its objects all the time, and has a namespace full of events.
const mountInterval = time.Minute

// lookAtMounts returns what mountFailure does, or between two looks what the condition of the VMI says already.
func (c *Controller) lookAtMounts(ctx context.Context, s seen, o *outcome) string {
	if wait := c.mountLimits.wait(s.key, c.Now(), rate.Every(mountInterval), 1); wait > 0 {
		o.again(wait)
		if said := condition.Of(s.vmi, v1.VirtualMachineInstanceSynchronized); said != nil && said.Reason == v1alpha1.ReasonPodStarting {
			return said.Message
		}
		return ""
	}
	o.again(mountInterval)
	return c.mountFailure(ctx, s.pod)
}

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
