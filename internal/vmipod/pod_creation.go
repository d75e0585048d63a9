package vmipod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/internal/vmipod/vmistatus"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podCreation creates the pods of VMIs.
type podCreation struct {
	*environment
	awaited *awaitedObjects
	lookup  objectLookup
	account launcherAccount
	state   guestState
}

// createPodAndNeeds creates what the pod of a VMI needs, then the pod, and records the pod in the VMI's status. If this process dies before the record, the
// next one deletes the pod and creates another.
func (p podCreation) createPodAndNeeds(ctx context.Context, o observed.Objects) (*condition.Cause, error) {
	// The cache has no specs, and with an older status a VMI could get a second pod.
	vmi, err := objects.GetOrNil(ctx, p.Live, o.Key, &v1.VirtualMachineInstance{})
	if err != nil || vmi == nil || vmi.UID != o.VMI.UID {
		return nil, err
	}
	if nextAction(factsOf(observed.Objects{Key: o.Key, VMI: vmi})) != actionCreatePod {
		return nil, nil // the event of the newer VMI is on its way
	}
	in, err := p.podInputs().Read(ctx, vmi)
	if err != nil {
		return nil, err
	}
	missing, missingErrs, err := p.lookup.missingReferences(ctx, vmi)
	if err != nil {
		return nil, err
	}
	p.awaited.setObjects(o.Key, slices.Concat(missingClaims(vmi, in.Claims), missingNetworks(vmi, in.NetworkResources), missing))
	_, errs := pod.New(in)
	if errs = append(errs, missingErrs...); len(errs) > 0 { // before anything is created for the pod
		return &condition.Cause{Reason: inputReason(errs), Message: condition.Mistakes(errs)}, nil
	}
	var cause *condition.Cause
	if in.KeySecret, cause, err = p.state.ensureState(ctx, in); err != nil || cause != nil {
		return cause, err
	}
	if cause, err := p.account.ensureAccount(ctx, vmi); err != nil || cause != nil {
		return cause, err
	}
	made, _ := pod.New(in)
	return p.createPod(ctx, vmi, in, made)
}

// createPod creates the pod and records it. Its warnings follow as an event.
func (p podCreation) createPod(ctx context.Context, vmi *v1.VirtualMachineInstance, in pod.Input, made pod.Result) (*condition.Cause, error) {
	err := p.Live.Create(ctx, made.Pod)
	if apierrors.IsAlreadyExists(err) {
		return p.nameTaken(ctx, made.Pod, vmi)
	}
	if cause, err := p.refusedCreate(vmi, err); err != nil {
		return nil, fmt.Errorf("creating pod '%s': %w", made.Pod.Name, err)
	} else if cause != nil {
		return cause, nil
	}
	recorded, err := p.recordPod(ctx, vmi, in, made.Pod)
	if err == nil && recorded && len(made.Warnings) > 0 {
		p.writeEvent(vmi, corev1.EventTypeWarning, condition.Cause{Reason: v1alpha1.ReasonNoEffect, Message: strings.Join(made.Warnings, "; ")})
	}
	return nil, err
}

// claimReasons are the reasons for errors about claims, by the origin of the error. The first ones need a person.
var claimReasons = []condition.OriginReason{
	{Origin: pod.RuleClaimMissing, Reason: v1alpha1.ReasonFailedPvcNotFound},
	{Origin: pod.RuleClaimFailed, Reason: v1alpha1.ReasonFailedDataVolumeImport},
	{Origin: pod.RuleClaimUnfilled, Reason: v1alpha1.ReasonProvisioning},
	{Origin: pod.RuleClaimUnbound, Reason: v1alpha1.ReasonWaitingForVolumeBinding},
}

// inputReason returns the reason for which no pod can be created. It is about claims only if nothing else is wrong.
func inputReason(errs field.ErrorList) string {
	return condition.ReasonByOrigin(errs, claimReasons, v1alpha1.ReasonNotPlaceable)
}

// nameTaken returns why a pod could not be created although the cache has none of its name.
func (p podCreation) nameTaken(ctx context.Context, wanted *corev1.Pod, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	found, err := objects.GetOrNil(ctx, p.Live, client.ObjectKeyFromObject(wanted), &corev1.Pod{})
	switch {
	case err != nil:
		return nil, err
	case found == nil || observed.IsOwnedByName(found, vmi.Name):
		return nil, retryError("the pod has just been created, or is about to be gone")
	}
	return nameTakenCause("Pod", wanted.Name), nil
}

// recordPod writes the pod that was created into the status of its VMI, and reports whether it did. Others write that status too: after a conflict the VMI is
// read again a few times, because an unrecorded pod is deleted.
func (p podCreation) recordPod(ctx context.Context, vmi *v1.VirtualMachineInstance, in pod.Input, created *corev1.Pod) (recorded bool, err error) {
	for range 5 {
		if len(vmi.Status.ActivePods) > 0 || vmi.IsFinal() {
			return false, nil // the VMI has another pod or needs none: the next reconcile deletes this one
		}
		changed := vmi.DeepCopy()
		vmistatus.SetCreated(changed, in, created)
		if err = p.patchVMIStatus(ctx, changed, vmi); err == nil {
			p.writeEvent(vmi, corev1.EventTypeNormal, condition.Cause{Reason: string(v1.Created), Message: fmt.Sprintf("created pod '%s'", created.Name)})
			return true, nil
		}
		if !apierrors.IsConflict(err) {
			return false, err
		}
		current, err := objects.GetOrNil(ctx, p.Live, client.ObjectKeyFromObject(vmi), &v1.VirtualMachineInstance{})
		if err != nil || current == nil || current.UID != vmi.UID {
			return false, err
		}
		vmi = current
	}
	return false, err
}
