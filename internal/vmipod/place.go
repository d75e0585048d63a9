package vmipod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/lifecycle"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// place makes the pod of a VMI, after what the pod needs, and records it in the VMI's status. A process that dies before that leaves a pod that no status
// has: the next one deletes it and makes another.
func (c *Controller) place(ctx context.Context, s seen) (*condition.Cause, error) {
	// Read whole, since the cache has no specs, and anew: with an older status a VMI could get a second pod.
	vmi, err := get(ctx, c.Live, s.key, &v1.VirtualMachineInstance{})
	if err != nil || vmi == nil || vmi.UID != s.vmi.UID {
		return nil, err
	}
	if again := (seen{key: s.key, vmi: vmi}); decide(again.facts()) != actionCreatePod {
		return nil, nil // the event of the newer one is on its way
	}
	in, err := c.input(ctx, vmi)
	if err != nil {
		return nil, err
	}
	missing, absent, err := c.missingReferences(ctx, vmi)
	if err != nil {
		return nil, err
	}
	c.awaited.setObjects(s.key, slices.Concat(missingClaims(vmi, in.Claims), missingNetworks(vmi, in.NetworkResources), missing))
	_, errs := pod.Of(in)
	if errs = append(errs, absent...); len(errs) > 0 { // before anything is made for it
		return &condition.Cause{Reason: reasonNotPlaced(errs), Message: condition.Mistakes(errs)}, nil
	}
	if why, err := c.provide(ctx, &in); err != nil || why != nil {
		return why, err
	}
	made, _ := pod.Of(in)
	if err := c.Live.Create(ctx, made.Pod); apierrors.IsAlreadyExists(err) {
		return c.occupied(ctx, made.Pod, vmi)
	} else if refused(err) {
		return c.failedCreate(vmi, err), nil
	} else if err != nil {
		return nil, fmt.Errorf("creating pod '%s': %w", made.Pod.Name, err)
	}
	if err := c.adopt(ctx, vmi, in, made.Pod); err != nil {
		return nil, err
	}
	if len(made.Warnings) > 0 {
		c.event(vmi, corev1.EventTypeWarning, condition.Cause{Reason: v1alpha1.ReasonNoEffect, Message: strings.Join(made.Warnings, "; ")})
	}
	return nil, nil
}

// claimReasons are the reasons for errors about claims, by their origins, those first that a person must mend.
var claimReasons = []struct{ origin, reason string }{
	{pod.RuleClaimMissing, v1alpha1.ReasonFailedPvcNotFound}, {pod.RuleClaimFailed, v1alpha1.ReasonFailedDataVolumeImport},
	{pod.RuleClaimUnfilled, v1alpha1.ReasonProvisioning}, {pod.RuleClaimUnbound, v1alpha1.ReasonWaitingForVolumeBinding},
}

// reasonNotPlaced returns the reason for which no pod can be made. It is one about claims only if nothing else is wrong.
func reasonNotPlaced(errs field.ErrorList) string {
	found := map[string]bool{}
	for _, err := range errs {
		found[err.Origin] = true
	}
	of := v1alpha1.ReasonNotPlaceable
	for _, claim := range claimReasons {
		if found[claim.origin] && of == v1alpha1.ReasonNotPlaceable {
			of = claim.reason
		}
		delete(found, claim.origin)
	}
	if len(found) > 0 {
		return v1alpha1.ReasonNotPlaceable
	}
	return of
}

// refused reports whether only a user or an administrator can correct what made a request fail: quotas, LimitRanges and Pod Security answer with Forbidden,
// and a webhook may be away.
func refused(err error) bool {
	return outage.WebhookOf(err) != "" || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || condition.Oversized(err)
}

// occupied returns why the pod could not be created: an object that the cache lacks has its name.
func (c *Controller) occupied(ctx context.Context, wanted *corev1.Pod, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	found, err := get(ctx, c.Live, client.ObjectKeyFromObject(wanted), &corev1.Pod{})
	switch {
	case err != nil:
		return nil, err
	case found == nil || ofName(found, vmi.Name): // the cache gets it, or it is about to go
		return nil, later("the pod has just been created, or is about to go")
	}
	return taken("Pod", wanted.Name), nil
}

// adopt writes the pod that was created into the status of its VMI. Others write that status too: a conflict must not make this pod a stranger, so the
// VMI is read again a few times.
func (c *Controller) adopt(ctx context.Context, vmi *v1.VirtualMachineInstance, in pod.Input, made *corev1.Pod) (err error) {
	for range 5 {
		if len(vmi.Status.ActivePods) > 0 || vmi.IsFinal() {
			return nil // it has another pod, or needs none: the next reconcile discards this one
		}
		adopted := vmi.DeepCopy()
		adopted.Status.Interfaces, adopted.Status.VolumeStatus = interfaces(in), volumes(in)
		seen{vmi: adopted, pod: made}.describe(adopted)
		condition.SetPhase(adopted, v1.Scheduling)
		condition.Clear(adopted, v1.VirtualMachineInstanceSynchronized) // what kept the VMI from a pod is over
		if err = c.writeStatus(ctx, vmi, adopted); err == nil {
			c.event(vmi, corev1.EventTypeNormal, condition.Cause{Reason: string(v1.Created), Message: fmt.Sprintf("created pod '%s'", made.Name)})
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		now, err := get(ctx, c.Live, client.ObjectKeyFromObject(vmi), &v1.VirtualMachineInstance{})
		if err != nil || now == nil || now.UID != vmi.UID {
			return err
		}
		vmi = now
	}
	return err
}

// input reads what the pod of a VMI depends on.
func (c *Controller) input(ctx context.Context, vmi *v1.VirtualMachineInstance) (in pod.Input, err error) {
	in = pod.Input{VMI: vmi, Settings: c.settings()}
	if in.Record, err = c.recordOf(ctx, vmi); err != nil {
		return in, err
	}
	if in.Claims, err = c.claims(ctx, vmi); err != nil {
		return in, err
	}
	if in.NetworkResources, err = c.networkResources(ctx, vmi); err != nil {
		return in, err
	}
	in.LimitsDemanded, err = c.limitsDemanded(ctx, vmi.Namespace)
	return in, err
}

// settings are those of the flags, and of KubeVirt's configuration.
func (c *Controller) settings() pod.Settings {
	settings, now := c.Settings, c.Configuration()
	settings.Emulate, settings.CPUAllocationRatio, settings.MemoryOvercommit = now.Pods.Emulate, now.Pods.CPUAllocationRatio, now.Pods.MemoryOvercommit
	settings.OverheadRatio, settings.StateClass, settings.PullPolicy = now.Pods.OverheadRatio, now.Pods.StateClass, now.Pods.PullPolicy
	settings.PermittedHostDevices = now.Limits.PermittedHostDevices
	return settings
}

// recordOf returns the record that the guest will find again, nil at the first boot. The hardware of another guest is none; what is wrong with a record
// is reported when stage 2 runs.
func (c *Controller) recordOf(ctx context.Context, vmi *v1.VirtualMachineInstance) (*record.Record, error) {
	if vmi.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest {
		return nil, nil
	}
	hardware, err := lifecycle.Hardware(ctx, c.Live, client.ObjectKeyFromObject(vmi))
	if err != nil || hardware == nil {
		return nil, err
	}
	guest := ownership.Guest{VMI: vmi.UID, Identity: vmi.Annotations[v1alpha1.AnnotationIdentity]}
	if owner := metav1.GetControllerOf(vmi); owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind {
		guest.VM = owner.UID
	}
	if guest.Ownership(hardware) != ownership.Own || record.Check(hardware.Spec.Hardware) != nil {
		return nil, nil
	}
	return hardware.Spec.Hardware, nil
}

// limitsDemanded returns the resources of which a ResourceQuota of the namespace demands limits. CPUs are also limited in namespaces that the configuration
// selects for that.
func (c *Controller) limitsDemanded(ctx context.Context, namespace string) (demanded []corev1.ResourceName, err error) {
	var quotas corev1.ResourceQuotaList
	if err := c.Live.List(ctx, &quotas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ResourceQuotas: %w", err)
	}
	for _, resource := range []struct{ limit, name corev1.ResourceName }{
		{corev1.ResourceLimitsCPU, corev1.ResourceCPU}, {corev1.ResourceLimitsMemory, corev1.ResourceMemory},
	} {
		if slices.ContainsFunc(quotas.Items, func(q corev1.ResourceQuota) bool { _, set := q.Spec.Hard[resource.limit]; return set }) {
			demanded = append(demanded, resource.name)
		}
	}
	limited, err := c.limitsCPUs(ctx, namespace)
	if err == nil && limited && !slices.Contains(demanded, corev1.ResourceCPU) {
		demanded = append(demanded, corev1.ResourceCPU)
	}
	return demanded, err
}

// limitsCPUs reports whether autoCPULimitNamespaceLabelSelector of the configuration selects a namespace.
func (c *Controller) limitsCPUs(ctx context.Context, namespace string) (bool, error) {
	chosen := c.Configuration().Pods.LimitedCPUs
	if chosen == nil {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(chosen)
	if err != nil {
		return false, err // the configuration is judged when it is read
	}
	found, err := get(ctx, c.Client, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
	return found != nil && selector.Matches(labels.Set(found.Labels)), err
}
