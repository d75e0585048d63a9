package vmipod

import (
	"context"
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a pod needs besides itself: an account with the few rights of a launcher, and state that outlives the pod.

// provide makes it, and completes the input by the key of the state. It returns a refusal if somebody else has one of the names.
func (c *Controller) provide(ctx context.Context, in *pod.Input) (why *condition.Cause, err error) {
	if in.KeySecret, why, err = c.state(ctx, *in); err != nil || why != nil {
		return why, err
	}
	for _, needed := range rights(in.VMI) {
		if why, err := c.ensure(ctx, needed, in.VMI); err != nil || why != nil {
			return why, err
		}
	}
	return nil, nil
}

// rights are the account of a launcher, unless the VMI names one, and a Role for it. A tenant may speak as the launcher: it may read its own VMI, and
// write the status of its own GuestPod, for which a policy asks for the token of its own pod.
func rights(vmi *v1.VirtualMachineInstance) (all []client.Object) {
	name, account := pod.Name(vmi.Name), pod.Account(vmi)
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: vmi.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)}}
	}
	if account == name {
		all = append(all, &corev1.ServiceAccount{ObjectMeta: meta()})
	}
	of := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{vmi.Name}, Verbs: verbs}
	}
	return append(all,
		&rbacv1.Role{ObjectMeta: meta(), Rules: []rbacv1.PolicyRule{
			of(v1.GroupVersion.Group, "virtualmachineinstances", "get"),
			of(v1alpha1.GroupVersion.Group, "guestpods", "get", "list", "watch"),
			of(v1alpha1.GroupVersion.Group, "guestpods/status", "patch"),
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: vmi.Namespace}}})
}

// ensure creates an object of a VMI. One of the name that belongs to an earlier VMI of this name goes first: the garbage collector may be late.
func (c *Controller) ensure(ctx context.Context, wanted client.Object, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	kind := kindOf(wanted)
	err := c.Live.Create(ctx, wanted.DeepCopyObject().(client.Object))
	if refused(err) {
		return c.failedCreate(vmi, err), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	found := wanted.DeepCopyObject().(client.Object)
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	switch {
	case ofVMI(found, vmi) && same(found, wanted):
		return nil, nil
	case ofName(found, vmi.Name): // of a predecessor, or of another release of Kiln
		if err := c.delete(ctx, found); err != nil {
			return nil, err
		}
		if err := c.Live.Create(ctx, wanted); !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		return nil, later("that of another guest is being deleted")
	}
	return taken(kind, wanted.GetName()), nil
}

// kindOf returns the kind of what rights returns: typed objects have none.
func kindOf(object client.Object) string {
	switch object.(type) {
	case *rbacv1.Role:
		return "Role"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	}
	return rbacv1.ServiceAccountKind
}

// same reports whether an object grants what it should.
func same(found, wanted client.Object) bool {
	switch is := found.(type) {
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(is.Rules, wanted.(*rbacv1.Role).Rules)
	case *rbacv1.RoleBinding:
		return is.RoleRef == wanted.(*rbacv1.RoleBinding).RoleRef && slices.Equal(is.Subjects, wanted.(*rbacv1.RoleBinding).Subjects)
	}
	return true
}

// claims reads the claims that a VMI's volumes name. They are not cached for this: a claim that was read before it was bound says the same.
func (c *Controller) claims(ctx context.Context, vmi *v1.VirtualMachineInstance) (map[string]pod.Claim, error) {
	claims := map[string]pod.Claim{}
	for i := range vmi.Spec.Volumes {
		name := claimName(&vmi.Spec.Volumes[i])
		if _, known := claims[name]; known || name == "" {
			continue
		}
		found, err := get(ctx, c.Live, types.NamespacedName{Namespace: vmi.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return nil, fmt.Errorf("reading PersistentVolumeClaim '%s': %w", name, err)
		}
		if found == nil {
			continue
		}
		claim := claimOf(found)
		if claim.Filling, claim.Unready, err = c.describeFilling(ctx, found); err != nil {
			return nil, err
		}
		claims[name] = claim
	}
	return claims, nil
}

// claimName returns the claim of a volume, empty for other types. The claim of a DataVolume has its name.
func claimName(volume *v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	case volume.Ephemeral != nil && volume.Ephemeral.PersistentVolumeClaim != nil:
		return volume.Ephemeral.PersistentVolumeClaim.ClaimName
	}
	return ""
}

func claimOf(found *corev1.PersistentVolumeClaim) pod.Claim {
	writes := slices.ContainsFunc(found.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadOnlyMany })
	return pod.Claim{Block: found.Spec.VolumeMode != nil && *found.Spec.VolumeMode == corev1.PersistentVolumeBlock, ReadOnly: !writes,
		Info: v1.PersistentVolumeClaimInfo{ClaimName: found.Name, AccessModes: found.Spec.AccessModes, VolumeMode: found.Spec.VolumeMode,
			Capacity: found.Status.Capacity, Requests: found.Spec.Resources.Requests}}
}
