package vmipod

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A claim has the state that outlives a pod: EFI variables, the TPM's state. A Secret has the key of the TPM's state. The claim is made once, and says for
// good whether the state is encrypted, and with which key. The Secret is made before it: a process that dies in between leaves a Secret that nothing uses
// and that goes with the VM. The other order would leave a claim whose key is lost, like that of a backup without the Secret.

// state makes claim and Secret. It returns the name of the Secret, which is empty if the TPM's state is not encrypted or there is none, or a refusal.
func (c *Controller) state(ctx context.Context, in pod.Input) (secret string, why *condition.Cause, err error) {
	claim := pod.StateClaim(in)
	if claim == nil {
		return "", nil, nil
	}
	// Not from the cache, which may lack a claim of this process's own.
	found, err := get(ctx, c.Live, client.ObjectKeyFromObject(claim), &corev1.PersistentVolumeClaim{})
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("reading the claim for the state of the guest: %w", err)
	case found == nil:
		return c.newState(ctx, in)
	case found.DeletionTimestamp != nil || ofEarlierOwner(found, claim):
		// The garbage collector may be late, and pvc-protection keeps the claim until the pod before has gone. A pod would wait for it for ever, or lose it.
		return "", nil, later(fmt.Sprintf("PersistentVolumeClaim '%s' of another guest is being deleted", claim.Name))
	case !pod.NeedsKey(in) || found.Annotations[v1alpha1.AnnotationTPMKey] == "":
		return "", nil, nil // without the annotation it was made by an earlier release, or for EFI variables alone
	}
	why, err = c.checkKey(ctx, in.VMI, found)
	return found.Annotations[v1alpha1.AnnotationTPMKey], why, err
}

// newState makes a Secret with a new key, and then the claim that names it. If another process makes the claim meanwhile, the error is AlreadyExists, and
// the next reconcile finds that claim.
func (c *Controller) newState(ctx context.Context, in pod.Input) (string, *condition.Cause, error) {
	if pod.NeedsKey(in) {
		// A claim that is refused, perhaps for days, must not leave a Secret at each try.
		if why, err := c.failedState(in.VMI, c.Live.Create(ctx, pod.StateClaim(in), client.DryRunAll)); err != nil || why != nil {
			return "", why, err
		}
		secret := pod.KeySecret(in, newKey())
		if why, err := c.failedState(in.VMI, c.Live.Create(ctx, secret)); err != nil || why != nil {
			return "", why, err
		}
		in.KeySecret = secret.Name
	}
	why, err := c.failedState(in.VMI, c.Live.Create(ctx, pod.StateClaim(in)))
	return in.KeySecret, why, err
}

// ofEarlierOwner reports whether a claim has the controller of the wanted one, but an earlier one of that name: it goes with that. One without a controller is
// from a backup.
func ofEarlierOwner(found, wanted *corev1.PersistentVolumeClaim) bool {
	was, is := metav1.GetControllerOf(found), metav1.GetControllerOf(wanted)
	return was != nil && is != nil && was.Kind == is.Kind && was.Name == is.Name && was.UID != is.UID
}

// newKey returns 256 bits of randomness as text: libvirt passes it to swtpm as a passphrase.
func newKey() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random)
}

// failedState returns why the API server refuses the state of a guest.
func (c *Controller) failedState(vmi *v1.VirtualMachineInstance, err error) (*condition.Cause, error) {
	if refused(err) {
		return c.failedCreate(vmi, err), nil
	}
	if err != nil {
		return nil, fmt.Errorf("making the state of the guest: %w", err)
	}
	return nil, nil
}

// checkKey returns why the key of a claim cannot be used. A Secret that is missing is never made anew: no other key opens the state. What the Secret has is
// the launcher's to judge.
func (c *Controller) checkKey(ctx context.Context, vmi *v1.VirtualMachineInstance, claim *corev1.PersistentVolumeClaim) (*condition.Cause, error) {
	name := claim.Annotations[v1alpha1.AnnotationTPMKey]
	if !pod.IsKeySecret(name) {
		return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: fmt.Sprintf("annotation '%s' of PersistentVolumeClaim '%s' is '%s', "+
			"which is no name of a Secret with the key of a TPM: write the name that it had", v1alpha1.AnnotationTPMKey, claim.Name, name)}, nil
	}
	key := awaitedObject{pod.KindSecret, types.NamespacedName{Namespace: claim.Namespace, Name: name}}
	exists, err := c.objectExists(ctx, key)
	if err != nil || exists {
		return nil, err
	}
	c.awaited.addObject(client.ObjectKeyFromObject(vmi), key)
	return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: fmt.Sprintf("Secret '%s' does not exist, and the state of the TPM in "+
		"PersistentVolumeClaim '%s' is encrypted with its key: restore the Secret from a backup; or delete the claim, and with it EFI variables, the "+
		"state, and what the guest has sealed", name, claim.Name)}, nil
}
