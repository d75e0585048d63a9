package validate

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: those of objects that exist.
// A guest's spec is what it was started from, and nobody changes it. The status, and the labels and owners by which guests
// are managed, are written by controllers, and by a launcher for the guests of its own node.

// Account is who asks for a change.
type Account struct {
	// Name of the user or service account, empty where nobody asks.
	Name string
	// Node is the one that a pod's token is bound to, empty for a token that is bound to none.
	Node string
}

// GuestChange is an update of a guest that exists.
type GuestChange struct {
	New, Old *v1.VirtualMachineInstance
	By       Account
}

// forControllers are rules about what is written by controllers of guests alone.
var forControllers = []string{"security/reserved-label", "security/reserved-label-change", "update/owner", "update/status"}

// For leaves out of errs what the user may do as a controller of guests. Errors are told by their Origin, which is the name
// of the rule.
func For(user string, limits config.Limits, errs field.ErrorList) field.ErrorList {
	if !slices.Contains(limits.Controllers, user) {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return slices.Contains(forControllers, err.Origin) })
}

// GuestUpdate judges a change of a VMI outside its status.
func GuestUpdate(change GuestChange, limits config.Limits) field.ErrorList {
	now, was := change.New, change.Old
	errs := changedReserved(now, was)
	if !equality.Semantic.DeepEqual(now.Spec, was.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "cannot be changed while the guest exists: change its VirtualMachine, and restart it").WithOrigin("update/spec"))
	}
	errs = append(errs, changedOwners(now.OwnerReferences, was.OwnerReferences)...)
	errs = append(errs, otherNode(change, limits)...)
	return For(change.By.Name, limits, errs)
}

// GuestStatusUpdate judges a change of a VMI's status.
func GuestStatusUpdate(change GuestChange, limits config.Limits) (errs field.ErrorList) {
	if !equality.Semantic.DeepEqual(change.New.Status, change.Old.Status) {
		errs = append(errs, writtenStatus())
	}
	return For(change.By.Name, limits, append(errs, otherNode(change, limits)...))
}

// VMStatusUpdate judges a change of a VM's status, and the requests in it.
func VMStatusUpdate(vm, old *v1.VirtualMachine) (errs field.ErrorList) {
	if !equality.Semantic.DeepEqual(vm.Status, old.Status) {
		errs = append(errs, writtenStatus())
	}
	return append(errs, volumeRequests(vm, field.NewPath("status", "volumeRequests"))...)
}

func writtenStatus() *field.Error {
	return field.Forbidden(field.NewPath("status"), "is written by controllers only: say in spec what is wanted").WithOrigin("update/status")
}

// changedOwners finds VirtualMachines that were made an owner: whoever owns a guest deletes it and gives its successor its
// identity. That an owner goes is how the garbage collector lets a guest outlive its VM.
func changedOwners(now, was []metav1.OwnerReference) (errs field.ErrorList) {
	for i, owner := range now {
		group, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || group.Group != v1.GroupVersion.Group || owner.Kind != v1.VirtualMachineGroupVersionKind.Kind {
			continue
		}
		if !slices.ContainsFunc(was, func(other metav1.OwnerReference) bool { return sameOwner(owner, other) }) {
			at := field.NewPath("metadata", "ownerReferences").Index(i)
			errs = append(errs, field.Forbidden(at, "only controllers make a VirtualMachine the owner of a guest").WithOrigin("update/owner"))
		}
	}
	return errs
}

// sameOwner compares but for blockOwnerDeletion, which the garbage collector takes back.
func sameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID && isTrue(a.Controller) == isTrue(b.Controller)
}

// otherNode finds what a launcher writes into guests of other nodes, or for them. Whoever takes over a node would else have
// the guests of all. A launcher outside of the cluster has no token of a pod: it is held by its own rights alone.
func otherNode(change GuestChange, limits config.Limits) field.ErrorList {
	node := change.By.Node
	if node == "" || !slices.Contains(limits.Launchers, change.By.Name) || !limits.Gates.Enabled("NodeRestriction") {
		return nil
	}
	for _, named := range []string{change.Old.Status.NodeName, change.New.Status.NodeName} {
		if named != "" && named != node {
			return field.ErrorList{field.Forbidden(field.NewPath("status", "nodeName"), "a launcher of node '"+node+"' cannot write a guest of node '"+named+"'").WithOrigin("update/other-node")}
		}
	}
	return nil
}
