package resolve

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/pin"
	"github.com/kilnvm/kiln/pkg/instancetype"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Outdated is the error of a request that was made from an object which has changed since, or is about to change. The author must read the object again and
// make another request: the same request would be refused again.
type Outdated struct{ reason string }

func (o *Outdated) Error() string { return o.reason }

// NewOutdated returns an *Outdated error with a reason.
func NewOutdated(format string, args ...any) error { return &Outdated{fmt.Sprintf(format, args...)} }

// OwnerRef returns the reference to the VirtualMachine that controls a VMI; nil if none does.
func OwnerRef(vmi *v1.VirtualMachineInstance) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind {
		return nil
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != v1.GroupVersion.Group {
		return nil
	}
	return owner
}

// Owner returns the VM that a reference of a VMI names. It reads the VM from the API server, because the pins in a cache may be older than the revisions that
// KubeVirt has expanded. It returns an *Outdated error if the VM does not exist, or has another UID than the reference or another name than the VMI.
func (r Resolver) Owner(ctx context.Context, vmi *v1.VirtualMachineInstance, ref *metav1.OwnerReference) (*v1.VirtualMachine, error) {
	key, vm := client.ObjectKey{Namespace: vmi.Namespace, Name: ref.Name}, &v1.VirtualMachine{}
	if ref.Name != vmi.Name || !validKey(key) {
		return nil, NewOutdated("the VMI '%s' has an owner of another name, VirtualMachine '%s'", vmi.Name, ref.Name)
	}
	err := r.reader().liveReader().Get(ctx, key, vm)
	switch {
	case apierrors.IsNotFound(err):
		return nil, NewOutdated("the owner of the VMI, VirtualMachine '%s', does not exist", ref.Name)
	case err != nil:
		return nil, fmt.Errorf("reading VirtualMachine '%s', the owner of the VMI: %w", ref.Name, err)
	case vm.UID != ref.UID || vm.Spec.Template == nil:
		return nil, NewOutdated("the owner of the VMI, VirtualMachine '%s' of UID '%s', has been replaced by another one", ref.Name, ref.UID)
	}
	return vm, nil
}

// CheckExpanded returns nil if KubeVirt expands the revisions that a VM is pinned to. KubeVirt expands the revision that spec.*.revisionName names, else the
// revision in the status. An *Outdated error names the instancetype or preference that is not pinned yet, or that differs. The pin and KubeVirt's revision
// may be two revisions with the same content, because KubeVirt stores a revision for each VM before Kiln's controller has named the pin in the status.
func (r Resolver) CheckExpanded(ctx context.Context, vm *v1.VirtualMachine) error {
	pins := pin.Read(vm)
	instancetype, preference := matcherReferences(vm)
	for _, of := range []struct {
		*reference
		pin string
	}{{instancetype, pins.Instancetype}, {preference, pins.Preference}} {
		if of.reference == nil || of.pin == v1alpha1.PinNone {
			continue
		}
		expanded := cmp.Or(of.revision, of.statusRevision())
		if of.pin == "" {
			return NewOutdated("VirtualMachine '%s' is not pinned to its %s yet: kiln-controller pins it, or says in an event why it cannot", vm.Name, of.field)
		}
		same, err := r.reader().sameContent(ctx, of.namespace, of.pin, expanded)
		if err != nil {
			return err
		}
		if !same {
			return NewOutdated("KubeVirt has expanded revision '%s' of the %s, and VirtualMachine '%s' is pinned to '%s': kiln-controller writes the pin into "+
				"status.%sRef, which KubeVirt expands next", expanded, of.field, vm.Name, of.pin, of.field)
		}
	}
	return nil
}

// sameContent reports whether two revisions contain the same instancetype or preference, in any versions of the API.
func (r reader) sameContent(ctx context.Context, namespace, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	one, other, err := r.readRevisions(ctx, namespace, a, b)
	return err == nil && instancetype.SameContent(one, other), err
}

// IsUpgraded reports whether a revision contains the same object as the pinned one in another version of the API. KubeVirt stores such a revision when it
// serves a newer API.
func (r Resolver) IsUpgraded(ctx context.Context, namespace, pinned, revision string) (bool, error) {
	if pinned == revision {
		return false, nil
	}
	one, other, err := r.reader().readRevisions(ctx, namespace, pinned, revision)
	return err == nil && instancetype.SameContent(one, other) && !instancetype.SameVersion(one, other), err
}

// readRevisions returns the contents of two revisions. The content of a revision that does not exist is nil.
func (r reader) readRevisions(ctx context.Context, namespace, a, b string) (one, other []byte, err error) {
	if one, err = r.revisionData(ctx, client.ObjectKey{Namespace: namespace, Name: a}); err != nil {
		return nil, nil, err
	}
	other, err = r.revisionData(ctx, client.ObjectKey{Namespace: namespace, Name: b})
	return one, other, err
}

// revisionData returns the content of a revision; nil if it does not exist. It belongs to the cache.
func (r reader) revisionData(ctx context.Context, key client.ObjectKey) ([]byte, error) {
	var stored appsv1.ControllerRevision
	if err := r.getObject(ctx, key, &stored, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return stored.Data.Raw, nil
}
