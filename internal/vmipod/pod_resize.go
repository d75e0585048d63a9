package vmipod

import (
	"context"
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/podinput"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podResize resizes running pods.
type podResize struct{ *environment }

// resizable are the resources that Kubernetes can change in a running pod (KEP-1287).
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// resizePod requests the CPUs and the memory of a changed VMI for its running pod. It returns why the pod does not have them, nil if it does.
func (p podResize) resizePod(ctx context.Context, o observed.Objects, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	running, err := objects.GetOrNil(ctx, p.Live, observed.PodKey(o.Key), &corev1.Pod{}) // the cache has no containers
	if err != nil || running == nil || running.UID != o.Pod.UID {
		return nil, retryError("the pod has changed since it was read")
	}
	in, err := p.podInputs().Read(ctx, vmi)
	if err != nil {
		return nil, err
	}
	made, errs := pod.New(in)
	if len(errs) > 0 {
		return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: condition.Mistakes(errs)}, nil
	}
	resized := running.DeepCopy()
	if setResources(resized, guestContainer(made.Pod)) {
		err := p.Live.SubResource("resize").Patch(ctx, resized, client.StrategicMergeFrom(running))
		if podinput.IsRefused(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return &condition.Cause{Reason: v1alpha1.ReasonFailedResize, Message: err.Error()}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("resizing pod '%s': %w", running.Name, err)
		}
		running = resized
	}
	return resizeCause(running), nil
}

// guestContainer returns the container of a pod that runs the guest.
func guestContainer(of *corev1.Pod) *corev1.Container {
	for i := range of.Spec.Containers {
		if of.Spec.Containers[i].Name == pod.Container {
			return &of.Spec.Containers[i]
		}
	}
	return &corev1.Container{}
}

// setResources raises the requests and limits of a running guest's container to the requests and limits of the wanted container, and reports whether anything
// changed. It neither adds nor removes a request or limit, because the pod must keep its quality of service. It lowers only what kubelet has not granted yet,
// because another version of Kiln may have created the pod.
func setResources(running *corev1.Pod, wanted *corev1.Container) (changed bool) {
	current, granted := &guestContainer(running).Resources, corev1.ResourceRequirements{}
	if status := observed.Container(running); status != nil && status.Resources != nil && resizePending(running) != nil {
		granted = *status.Resources
	}
	for _, list := range []struct{ current, wanted, granted corev1.ResourceList }{
		{current.Requests, wanted.Resources.Requests, granted.Requests}, {current.Limits, wanted.Resources.Limits, granted.Limits},
	} {
		for _, name := range resizable {
			has, found := list.current[name]
			wants, known := list.wanted[name]
			least, mayShrink := list.granted[name]
			if mayShrink && wants.Cmp(least) < 0 {
				wants = least
			}
			if found && known && (wants.Cmp(has) > 0 || mayShrink && wants.Cmp(has) < 0) {
				list.current[name], changed = wants, true
			}
		}
	}
	return changed
}

// resizePending returns kubelet's condition that it has not granted what the spec of a pod requests; nil if the condition is not True.
func resizePending(of *corev1.Pod) *corev1.PodCondition {
	if pending := observed.PodCondition(of, corev1.PodResizePending); pending != nil && pending.Status == corev1.ConditionTrue {
		return pending
	}
	return nil
}

// resizeCause returns why a pod does not have yet what its spec requests, in kubelet's words; nil if it has.
func resizeCause(of *corev1.Pod) *condition.Cause {
	for _, kind := range []struct {
		condition corev1.PodConditionType
		reason    string
	}{{corev1.PodResizePending, v1alpha1.ReasonPodResizePending}, {corev1.PodResizeInProgress, v1alpha1.ReasonPodResizeInProgress}} {
		if found := observed.PodCondition(of, kind.condition); found != nil && found.Status == corev1.ConditionTrue {
			return &condition.Cause{Reason: kind.reason, Message: strings.TrimSpace(condition.OneLine(found.Reason + " " + found.Message))}
		}
	}
	status := observed.Container(of)
	if status == nil || status.Resources == nil || !hasResources(status.Resources.Requests, guestContainer(of).Resources.Requests) ||
		!hasResources(status.Resources.Limits, guestContainer(of).Resources.Limits) {
		return &condition.Cause{Reason: v1alpha1.ReasonPodResizeInProgress, Message: "kubelet has not resized the pod yet"}
	}
	return nil
}

// hasResources reports whether a container has the resources of its spec, according to its status. The kernel stores CPUs in other units, so that 2 % fewer
// count as rounding. Memory must be exact: a guest that gets memory before its pod would be killed.
func hasResources(status, spec corev1.ResourceList) bool {
	for _, name := range resizable {
		wants, requested := spec[name]
		got, found := status[name]
		if !requested {
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
