package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/outage"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applyRunStrategy creates or deletes the VMI as the run strategy and requests require.
func (c *Controller) applyRunStrategy(ctx context.Context, s *state) {
	switch s.nextAction() {
	case actionStop:
		// If the end is not recorded, writeStatus records it, and the event of that write reconciles the VM again.
		if s.endRecorded() {
			c.deleteVMI(ctx, s)
		}
	case actionRunAlways:
		if err := c.setRunStrategyAlways(ctx, s); err != nil {
			c.handleError(s, v1alpha1.ReasonFailedCreate, err)
		}
	case actionStart:
		if s.nameTaken {
			s.setFailure(v1alpha1.ReasonNameTaken,
				fmt.Sprintf("a virtual machine instance '%s' exists that does not belong to this virtual machine: delete it", s.vm.Name))
		}
		if s.failure != nil || s.retryable != nil || s.awaitedVolume != nil {
			return
		}
		if backoff := s.remainingBackoff(); backoff > 0 {
			s.failure = s.crashLoopFailure()
			s.requeue(backoff)
			return
		}
		c.createVMI(ctx, s)
	}
}

// setRunStrategyAlways sets the run strategy of a halted VM to Always, as KubeVirt does for 'virtctl start --paused'. Only the request to start says that the
// guest is to be paused, so it must be in the status before the VMI is created.
func (c *Controller) setRunStrategyAlways(ctx context.Context, s *state) error {
	running := s.vm.DeepCopy()
	if running.Spec.RunStrategy != nil {
		running.Spec.RunStrategy = ptr.To(v1.RunStrategyAlways)
	} else {
		running.Spec.Running = ptr.To(true) //nolint:staticcheck // the owner uses the deprecated field
	}
	return objects.Patch(ctx, c.Client, running, s.vm)
}

// noteVMIEvent adds an event about what this reconcile has done to the VMI or to a DataVolume.
func (s *state) noteVMIEvent(reason, message string) {
	s.vmiEvents = append(s.vmiEvents, guestEvent{condition.Cause{Reason: reason, Message: message}, corev1.EventTypeNormal})
}

// deleteVMI deletes the VMI. The UID keeps an outdated cache from deleting a successor of the same name.
func (c *Controller) deleteVMI(ctx context.Context, s *state) {
	uid := s.vmi.UID
	err := c.Client.Delete(ctx, s.vmi, client.Preconditions{UID: &uid})
	switch {
	case err == nil:
		s.noteVMIEvent(v1alpha1.ReasonSuccessfulDelete, "stopped the virtual machine instance")
	case client.IgnoreNotFound(err) != nil: // the event of a VMI that is already gone was recorded
		c.handleError(s, v1alpha1.ReasonFailedDelete, err)
	}
}

// createVMI creates the VMI. The record of an earlier boot takes precedence over the identity seed, which the VM's owner may have edited since.
func (c *Controller) createVMI(ctx context.Context, s *state) {
	if err := c.readFullVM(ctx, s); err != nil {
		s.retryable = err
		return
	}
	if err := c.repinLatest(ctx, s); err != nil {
		c.handleError(s, v1alpha1.ReasonFailedPin, err)
		return
	}
	vmi, err := c.nextVMI(ctx, s)
	if err == nil {
		if s.pauseRequested() {
			vmi.Spec.StartStrategy = ptr.To(v1.StartStrategyPaused)
		}
		err = c.Client.Create(ctx, vmi)
	}
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not have it yet: its event will arrive
		s.requeue(cacheRetry)
	case err != nil:
		c.handleError(s, v1alpha1.ReasonFailedCreate, err)
	default:
		s.vmi = vmi
		c.noteWithoutEffect(s, vmi) // admission has made it explicit
		s.noteVMIEvent(v1alpha1.ReasonSuccessfulCreate, "created the virtual machine instance")
	}
}

// nextVMI returns the VMI that a start creates. The state must have the full VM.
func (c *Controller) nextVMI(ctx context.Context, s *state) (*v1.VirtualMachineInstance, error) {
	vmi := admit.Instance(resolve.EffectiveVM(s.vm, s.pins))
	if err := annotateTemplateDigest(vmi); err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1.VirtualMachineGenerationAnnotation, strconv.FormatInt(s.vm.Generation, 10))
	vmi.Finalizers = slices.Clone(c.Finalizers)
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.vm, v1.VirtualMachineGroupVersionKind)}
	if err := c.restoreIdentity(ctx, s.vm, vmi); err != nil {
		return nil, err
	}
	identity.Fill(vmi, s.vm.Annotations[v1alpha1.AnnotationIdentity])
	return vmi, nil
}

// annotateTemplateDigest writes a digest of the spec, labels and annotations of a VMI, as its VM requires them, into an annotation of the VMI.
func annotateTemplateDigest(vmi *v1.VirtualMachineInstance) error {
	text, err := json.Marshal(struct {
		Spec                v1.VirtualMachineInstanceSpec
		Labels, Annotations map[string]string
	}{vmi.Spec, vmi.Labels, vmi.Annotations})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1alpha1.AnnotationTemplateDigest, "sha256:"+hex.EncodeToString(sum[:]))
	return nil
}

// restoreIdentity copies UUID, serial and MACs of the last boot from the VM's GuestHardware into the VMI; the launcher reads the rest of the record. With
// annotation kilnvm.io/hardware 'latest' it copies nothing. The GuestHardware is read from the API server: with an outdated one, the guest's devices would
// move. It returns a Refusal for a record that belongs to another VM or cannot be read, because a retry would fail in the same way.
func (c *Controller) restoreIdentity(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) error {
	hardware, err := ownership.ReadHardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
	if err != nil {
		return err
	}
	at := field.NewPath("guesthardwares").Key(vm.Name).Child("spec")
	relation := ownership.GuestOf(vm).Ownership(hardware)
	switch {
	case relation == ownership.Foreign:
		return &resolve.Refusal{Errors: field.ErrorList{field.Forbidden(at.Child("identity"), ownership.ForeignMessage(hardware))}}
	case relation != ownership.Own || vm.Annotations[v1alpha1.AnnotationHardware] == v1alpha1.HardwareLatest || hardware.Spec.Hardware == nil:
		return nil
	}
	if err := record.Check(hardware.Spec.Hardware); err != nil {
		return &resolve.Refusal{Errors: field.ErrorList{field.Forbidden(at.Child("hardware"), err.Error()+
			"; have an administrator correct or delete it, or set annotation '"+v1alpha1.AnnotationHardware+": "+v1alpha1.HardwareLatest+
			"' on the VM for new hardware")}}
	}
	identity.Recall(vmi, hardware.Spec.Hardware)
	return nil
}

// handleError reports an error. If only the user or the cluster's administrator can correct it, it becomes the Failure condition, and the VM is rechecked at
// its interval. If a webhook does not answer, it also becomes the Failure condition, and the step is retried when the webhook answers. Any other error is
// retried by the work queue. A conflict is not reported, because the next reconcile has the newer object.
func (c *Controller) handleError(s *state, reason string, err error) {
	s.awaitedWebhook = outage.WebhookOf(err)
	if s.awaitedWebhook != "" || needsCorrection(err) {
		s.setFailure(reason, err.Error())
		return
	}
	s.retryable = err
	if !apierrors.IsConflict(err) {
		s.failure = &failure{reason, err.Error()}
	}
}

// needsCorrection reports whether only the user or the cluster's administrator can correct the cause of an error.
func needsCorrection(err error) bool {
	return errors.As(err, new(*resolve.Refusal)) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		condition.Oversized(err)
}

func (c *Controller) recordEvent(s *state, kind, reason, note string) {
	c.Events.Eventf(s.vm, nil, kind, reason, "Reconcile", "%s", condition.Note(note))
}
