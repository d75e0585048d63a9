package vmipod

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/vmipod/observed"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// launcherAccount gives the launcher of a pod its account and its few rights.
type launcherAccount struct{ *environment }

// ensureAccount creates the objects of the account. It returns a cause if somebody else has an object of such a name.
func (l launcherAccount) ensureAccount(ctx context.Context, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	for _, wanted := range accountObjects(vmi) {
		if cause, err := l.ensureObject(ctx, wanted, vmi); err != nil || cause != nil {
			return cause, err
		}
	}
	return nil, nil
}

// accountObjects returns a ServiceAccount, unless the VMI names one, and a Role and a RoleBinding for it. A tenant may speak as the launcher. So the launcher
// may only read its own VMI and write the status of its own GuestPod, for which a policy demands the token of its own pod.
func accountObjects(vmi *v1.VirtualMachineInstance) (all []client.Object) {
	name, account := pod.Name(vmi.Name), pod.Account(vmi)
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: vmi.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)}}
	}
	if account == name {
		all = append(all, &corev1.ServiceAccount{ObjectMeta: meta()})
	}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{vmi.Name}, Verbs: verbs}
	}
	return append(all,
		&rbacv1.Role{ObjectMeta: meta(), Rules: []rbacv1.PolicyRule{
			rule(v1.GroupVersion.Group, "virtualmachineinstances", "get"),
			rule(v1alpha1.GroupVersion.Group, "guestpods", "get", "list", "watch"),
			rule(v1alpha1.GroupVersion.Group, "guestpods/status", "patch"),
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: vmi.Namespace}}})
}

// ensureObject creates an object of a VMI. An object that belongs to a previous VMI of this name is deleted first: the garbage collector may be late.
func (l launcherAccount) ensureObject(ctx context.Context, wanted client.Object, vmi *v1.VirtualMachineInstance) (*condition.Cause, error) {
	err := l.Live.Create(ctx, wanted.DeepCopyObject().(client.Object))
	if !apierrors.IsAlreadyExists(err) {
		return l.refusedCreate(vmi, err)
	}
	found := wanted.DeepCopyObject().(client.Object)
	if err := l.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	switch {
	case observed.IsOwnedBy(found, vmi) && grantsTheSame(found, wanted):
		return nil, nil
	case observed.IsOwnedByName(found, vmi.Name): // of a previous VMI, or from another release of Kiln
		if err := l.deleteObject(ctx, found); err != nil {
			return nil, err
		}
		if err := l.Live.Create(ctx, wanted); !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		return nil, retryError("the object of another guest is being deleted")
	}
	return nameTakenCause(accountKind(wanted), wanted.GetName()), nil
}

// accountKind returns the kind of an object of accountObjects: typed objects do not have it.
func accountKind(object client.Object) string {
	switch object.(type) {
	case *rbacv1.Role:
		return "Role"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	}
	return rbacv1.ServiceAccountKind
}

func grantsTheSame(found, wanted client.Object) bool {
	switch found := found.(type) {
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(found.Rules, wanted.(*rbacv1.Role).Rules)
	case *rbacv1.RoleBinding:
		return found.RoleRef == wanted.(*rbacv1.RoleBinding).RoleRef && slices.Equal(found.Subjects, wanted.(*rbacv1.RoleBinding).Subjects)
	}
	return true
}
