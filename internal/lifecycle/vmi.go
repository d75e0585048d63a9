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

// act creates or deletes the VMI as the run strategy and requests ask.
func (c *Controller) act(ctx context.Context, s *state) {
	switch s.nextAction() {
	case stop:
		// report writes the status that is missing, and its event brings the VM back here.
		if s.endRecorded() {
			c.stop(ctx, s)
		}
	case unhalt:
		if err := c.unhalt(ctx, s); err != nil {
			c.failed(s, v1alpha1.ReasonFailedCreate, err)
		}
	case start:
		if s.nameTaken {
			s.fail(v1alpha1.ReasonNameTaken,
				fmt.Sprintf("a virtual machine instance '%s' exists that does not belong to this virtual machine: delete it", s.vm.Name))
		}
		if s.failure != nil || s.retryable != nil {
			return
		}
		if backoff := s.backoff(); backoff > 0 {
			s.failure = s.crashLoop()
			s.requeue(backoff)
			return
		}
		c.start(ctx, s)
	}
}

// noteDone notes what this reconcile has done to the VMI, for an event.
func (s *state) noteDone(reason, message string) {
	s.done = append(s.done, news{condition.Cause{Reason: reason, Message: message}, corev1.EventTypeNormal})
}

// stop deletes the VMI. The UID keeps a stale cache from deleting a successor of the same name.
func (c *Controller) stop(ctx context.Context, s *state) {
	uid := s.vmi.UID
	err := c.Client.Delete(ctx, s.vmi, client.Preconditions{UID: &uid})
	switch {
	case err == nil:
		s.noteDone(v1alpha1.ReasonSuccessfulDelete, "stopped the virtual machine instance")
	case client.IgnoreNotFound(err) != nil: // one that is gone already has its event
		c.failed(s, v1alpha1.ReasonFailedDelete, err)
	}
}

// start creates the VMI. The record of an earlier boot wins over the identity seed, which the VM's owner may have edited since.
func (c *Controller) start(ctx context.Context, s *state) {
	if err := c.readWhole(ctx, s); err != nil {
		s.retryable = err
		return
	}
	if err := c.repinLatest(ctx, s); err != nil {
		c.failed(s, v1alpha1.ReasonFailedPin, err)
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
	case apierrors.IsAlreadyExists(err): // the cache does not have it yet: its event is on its way
		s.requeue(cacheRetry)
	case err != nil:
		c.failed(s, v1alpha1.ReasonFailedCreate, err)
	default:
		s.vmi = vmi
		s.noteDone(v1alpha1.ReasonSuccessfulCreate, "created the virtual machine instance")
	}
}

// nextVMI returns the VMI that a start creates. The VM must be whole.
func (c *Controller) nextVMI(ctx context.Context, s *state) (*v1.VirtualMachineInstance, error) {
	vmi := admit.Instance(resolve.Effective(s.vm, s.pins))
	if err := digestTemplate(vmi); err != nil {
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

// digestTemplate writes the digest of what the VM asks for into the annotations of its VMI.
func digestTemplate(vmi *v1.VirtualMachineInstance) error {
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

// restoreIdentity copies UUID, serial and MACs of the last boot from the VM's GuestHardware into the VMI; the launcher reads the rest of the
// record. With annotation kilnvm.io/hardware 'latest' it copies nothing. The GuestHardware is read live: with an outdated one the devices of
// the guest would move. It returns a Refusal for a record that is another VM's or cannot be read: a retry would find the same.
func (c *Controller) restoreIdentity(ctx context.Context, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) error {
	hardware, err := Hardware(ctx, c.Live, client.ObjectKeyFromObject(vm))
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

// failed reports an error. An error that only the user or the cluster's administrator can correct becomes the Failure condition, and is rechecked at its
// interval. One of a webhook that does not answer does too, and the step is tried again when the webhook answers. Any other is retried by the work queue. A
// conflict is not reported: the next reconcile has the newer object.
func (c *Controller) failed(s *state, reason string, err error) {
	s.awaitedWebhook = outage.WebhookOf(err)
	if s.awaitedWebhook != "" || needsHands(err) {
		s.fail(reason, err.Error())
		return
	}
	s.retryable = err
	if !apierrors.IsConflict(err) {
		s.failure = &failure{reason, err.Error()}
	}
}

// needsHands reports whether only the user or the cluster's administrator can correct what led to an error.
func needsHands(err error) bool {
	return errors.As(err, new(*resolve.Refusal)) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		condition.Oversized(err)
}

func (c *Controller) event(s *state, kind, reason, note string) {
	c.Events.Eventf(s.vm, nil, kind, reason, "Reconcile", "%s", condition.Note(note))
}
