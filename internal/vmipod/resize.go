package vmipod

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resized are the resources that Kubernetes changes in a pod that runs (KEP-1287).
var resized = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// resize asks for the CPUs and the memory of a VMI that has changed, in its pod that runs. It returns why the pod does not have them, nil if it does.
func (c *Controller) resize(ctx context.Context, s seen, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	runs, err := get(ctx, c.Live, podOf(s.key), &corev1.Pod{}) // whole, for its resources
	if err != nil || runs == nil || runs.UID != s.pod.UID {
		return nil, later("the pod has changed since it was seen")
	}
	in, err := c.input(ctx, vmi)
	if err != nil {
		return nil, err
	}
	made, errs := pod.Of(in)
	if len(errs) > 0 {
		return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: condition.Mistakes(errs)}, nil
	}
	grown := runs.DeepCopy()
	if fit(grown, compute(made.Pod)) {
		err := c.Live.SubResource("resize").Patch(ctx, grown, client.StrategicMergeFrom(runs))
		if refused(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return &condition.Cause{Reason: v1alpha1.ReasonFailedResize, Message: err.Error()}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("resizing pod '%s': %w", runs.Name, err)
		}
		runs = grown
	}
	return resizing(runs), nil
}

// compute returns the container of a guest's pod.
func compute(of *corev1.Pod) *corev1.Container {
	for i := range of.Spec.Containers {
		if of.Spec.Containers[i].Name == pod.Container {
			return &of.Spec.Containers[i]
		}
	}
	return &corev1.Container{}
}

// fit raises the requests and limits of a guest's container that runs to those of the one that a start would make. It adds and removes none: the pod keeps its
// quality of service. It lowers what kubelet has not granted yet, and nothing else: another version of Kiln may have made the pod. It reports whether there is
// a change.
func fit(runs *corev1.Pod, made *corev1.Container) (changed bool) {
	of, granted := &compute(runs).Resources, corev1.ResourceRequirements{}
	if status := containerOf(runs); status != nil && status.Resources != nil && resizePending(runs) != nil {
		granted = *status.Resources
	}
	for _, list := range []struct{ has, wants, granted corev1.ResourceList }{
		{of.Requests, made.Resources.Requests, granted.Requests}, {of.Limits, made.Resources.Limits, granted.Limits},
	} {
		for _, name := range resized {
			has, found := list.has[name]
			wants, known := list.wants[name]
			least, lowers := list.granted[name]
			if lowers && wants.Cmp(least) < 0 {
				wants = least
			}
			if found && known && (wants.Cmp(has) > 0 || lowers && wants.Cmp(has) < 0) {
				list.has[name], changed = wants, true
			}
		}
	}
	return changed
}

// resizePending returns kubelet's condition that it has not granted what the spec of a pod asks for; nil if there is none.
func resizePending(of *corev1.Pod) *corev1.PodCondition {
	if said := podCondition(of, corev1.PodResizePending); said != nil && said.Status == corev1.ConditionTrue {
		return said
	}
	return nil
}

// resizing returns why a pod does not have yet what its spec says, in kubelet's words; nil if it has.
func resizing(of *corev1.Pod) *condition.Cause {
	for _, kind := range []struct {
		of     corev1.PodConditionType
		reason string
	}{{corev1.PodResizePending, v1alpha1.ReasonPodResizePending}, {corev1.PodResizeInProgress, v1alpha1.ReasonPodResizeInProgress}} {
		if said := podCondition(of, kind.of); said != nil && said.Status == corev1.ConditionTrue {
			return &condition.Cause{Reason: kind.reason, Message: strings.TrimSpace(plain(said.Reason + " " + said.Message))}
		}
	}
	status := containerOf(of)
	if status == nil || status.Resources == nil || !has(status.Resources.Requests, compute(of).Resources.Requests) ||
		!has(status.Resources.Limits, compute(of).Resources.Limits) {
		return &condition.Cause{Reason: v1alpha1.ReasonPodResizeInProgress, Message: "kubelet has not resized the pod yet"}
	}
	return nil
}

// has reports whether the resources that kubelet says a container has are those of its spec. The kernel keeps CPUs in other units, so that one in fifty of them
// counts as rounding; of memory nothing does: a guest that has it before its pod would be killed.
func has(status, spec corev1.ResourceList) bool {
	for _, name := range resized {
		wants, asked := spec[name]
		got, found := status[name]
		if !asked {
			continue
		}
		if name == corev1.ResourceCPU {
			wants = *resource.NewMilliQuantity(wants.MilliValue()/50*49, resource.DecimalSI)
		}
		if !found || got.Cmp(wants) < 0 {
			return false
		}
	}
	return true
}
