package vmipod

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guestState is the state of a guest that outlives its pods: a PersistentVolumeClaim with the EFI variables and the state of the TPM, and a Secret with the
// key of the TPM's state. The claim is created once, and its annotation says for good whether the state is encrypted and with which key.
//
// The Secret is created before the claim. A process that dies in between leaves a Secret that nothing uses and that is deleted with the VM. The other order
// would leave a claim whose key is lost.
type guestState struct {
	*environment
	awaited *awaitedObjects
	lookup  objectLookup
}

// ensureState creates claim and Secret if the guest has such a state. It returns the name of the Secret, which is empty if no state of a TPM is encrypted, or a
// cause.
func (g guestState) ensureState(ctx context.Context, in pod.Input) (secret string, cause *condition.Cause, err error) {
	claim := pod.StateClaim(in)
	if claim == nil {
		return "", nil, nil
	}
	// The cache may lack a claim that this process has created.
	found, err := objects.GetOrNil(ctx, g.Live, client.ObjectKeyFromObject(claim), &corev1.PersistentVolumeClaim{})
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("reading the claim for the state of the guest: %w", err)
	case found == nil:
		return g.createState(ctx, in)
	case found.DeletionTimestamp != nil || hasPreviousOwner(found, claim):
		// The garbage collector may be late, and pvc-protection keeps the claim until the previous pod is gone. A pod would wait for the claim for ever, or lose it.
		return "", nil, retryError(fmt.Sprintf("PersistentVolumeClaim '%s' of another guest is being deleted", claim.Name))
	case !pod.NeedsKey(in) || found.Annotations[v1alpha1.AnnotationTPMKey] == "":
		return "", nil, nil // a claim without the annotation was created by an earlier release, or only for EFI variables
	}
	cause, err = g.checkKey(ctx, in.VMI, found)
	return found.Annotations[v1alpha1.AnnotationTPMKey], cause, err
}

// createState creates a Secret with a new key, and then the claim that names it. If another process creates the claim meanwhile, the error is AlreadyExists,
// and the next reconcile finds that claim.
func (g guestState) createState(ctx context.Context, in pod.Input) (secret string, cause *condition.Cause, err error) {
	if pod.NeedsKey(in) {
		// A claim that is refused, perhaps for days, must not leave a Secret at each try.
		if cause, err := g.stateCreated(in.VMI, g.Live.Create(ctx, pod.StateClaim(in), client.DryRunAll)); err != nil || cause != nil {
			return "", cause, err
		}
		secret := pod.KeySecret(in, newKey())
		if cause, err := g.stateCreated(in.VMI, g.Live.Create(ctx, secret)); err != nil || cause != nil {
			return "", cause, err
		}
		in.KeySecret = secret.Name
	}
	cause, err = g.stateCreated(in.VMI, g.Live.Create(ctx, pod.StateClaim(in)))
	return in.KeySecret, cause, err
}

// stateCreated is refusedCreate for objects of the state.
func (g guestState) stateCreated(vmi *v1.VirtualMachineInstance, err error) (*condition.Cause, error) {
	cause, err := g.refusedCreate(vmi, err)
	if err != nil {
		err = fmt.Errorf("creating the state of the guest: %w", err)
	}
	return cause, err
}

// hasPreviousOwner reports whether the controller of a claim has the kind and the name of the wanted one, and another UID: the claim is deleted with it. A
// claim without a controller is from a backup.
func hasPreviousOwner(found, wanted *corev1.PersistentVolumeClaim) bool {
	was, is := metav1.GetControllerOf(found), metav1.GetControllerOf(wanted)
	return was != nil && is != nil && was.Kind == is.Kind && was.Name == is.Name && was.UID != is.UID
}

// newKey returns 256 random bits as text, which libvirt passes to swtpm as a passphrase.
func newKey() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random)
}

// checkKey returns why the key of a claim cannot be used. A missing Secret is never created again, because another key does not open the state. The launcher
// checks the content of the Secret.
func (g guestState) checkKey(ctx context.Context, vmi *v1.VirtualMachineInstance, claim *corev1.PersistentVolumeClaim) (*condition.Cause, error) {
	name := claim.Annotations[v1alpha1.AnnotationTPMKey]
	if !pod.IsKeySecret(name) {
		return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: fmt.Sprintf("annotation '%s' of PersistentVolumeClaim '%s' is '%s', "+
			"which is not the name of a Secret with the key of a TPM: restore its previous value", v1alpha1.AnnotationTPMKey, claim.Name, name)}, nil
	}
	key := awaitedObject{pod.KindSecret, types.NamespacedName{Namespace: claim.Namespace, Name: name}}
	exists, err := g.lookup.objectExists(ctx, key)
	if err != nil || exists {
		return nil, err
	}
	g.awaited.addObject(client.ObjectKeyFromObject(vmi), key)
	return &condition.Cause{Reason: v1alpha1.ReasonNotPlaceable, Message: fmt.Sprintf("Secret '%s' does not exist, and the state of the TPM in "+
		"PersistentVolumeClaim '%s' is encrypted with its key: restore the Secret from a backup, or delete the claim with its EFI variables and "+
		"the state of the TPM, without which the guest cannot open what it has sealed", name, claim.Name)}, nil
}
