package validate

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
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

var (
	ownerRules  = []Rule{{Name: "vmi/owner", ControllersMay: true}}
	nodeRules   = []Rule{{Name: "update/other-node"}}
	writerRules = []Rule{{Name: "update/status", ControllersMay: true}}
)

var (
	createRules = []changeRule{{newOwners, ownerRules}, {requestedHardware, hardwareRules}}
	changeRules = []changeRule{
		{changedReserved, []Rule{{Name: "security/reserved-label-change", ControllersMay: true}}},
		{changedSpec, []Rule{{Name: "update/spec"}}},
		{changedAnnotations, []Rule{{Name: "update/annotation", ControllersMay: true}}},
		{newOwners, ownerRules},
		{lostOwners, ownerRules},
		{otherNode, nodeRules},
	}
	statusRules = []changeRule{
		{changedStatus, writerRules},
		{otherNode, nodeRules},
		{movedNode, []Rule{{Name: "update/node"}}},
	}
	vmStatusRules = append([]vmRule{{changedVMStatus, writerRules}}, volumeRequestRules...)
)

// controlled are the annotations that tie a guest to what it was made from. Its controller copies them into what later guests are made
// from, with rights that nobody else has.
var controlled = []string{v1alpha1.AnnotationGeneration, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationPins}

// For leaves out of errs what the user may do as a controller of guests. Errors are told by their Origin, which is the name
// of the rule.
func For(user string, limits config.Limits, errs field.ErrorList) field.ErrorList {
	if !slices.Contains(limits.Controllers, user) {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return declared[err.Origin].ControllersMay })
}

// GuestUpdate judges a change of a VMI outside its status.
func GuestUpdate(change GuestChange, limits config.Limits) field.ErrorList {
	return For(change.By.Name, limits, judged(changeRules, change, limits))
}

// GuestStatusUpdate judges a change of a VMI's status.
func GuestStatusUpdate(change GuestChange, limits config.Limits) field.ErrorList {
	return For(change.By.Name, limits, judged(statusRules, change, limits))
}

// VMI judges what only a VirtualMachineInstance has, when it is created.
func VMI(vmi *v1.VirtualMachineInstance) field.ErrorList {
	return judged(createRules, GuestChange{New: vmi, Old: noGuest}, config.Limits{})
}

// noGuest is what was before a guest was created.
var noGuest = &v1.VirtualMachineInstance{}

func judged(rules []changeRule, change GuestChange, limits config.Limits) (errs field.ErrorList) {
	for i := range rules {
		errs = append(errs, rules[i].judge(change, limits)...)
	}
	return errs
}

// VMStatusUpdate judges a change of a VM's status, and the requests in it.
func VMStatusUpdate(now, was *v1.VirtualMachine) (errs field.ErrorList) {
	for i := range vmStatusRules {
		errs = append(errs, vmStatusRules[i].judge(now, was, config.Limits{})...)
	}
	return errs
}

func changedSpec(change GuestChange, _ config.Limits) field.ErrorList {
	if equality.Semantic.DeepEqual(change.New.Spec, change.Old.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"cannot be changed while the VMI exists: change its VirtualMachine, and restart it").WithOrigin("update/spec")}
}

func changedAnnotations(change GuestChange, _ config.Limits) (errs field.ErrorList) {
	for _, key := range controlled {
		value, set := change.New.Annotations[key]
		if before, had := change.Old.Annotations[key]; set != had || value != before {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(key),
				"only controllers may change it while the VMI exists: restore its previous value").WithOrigin("update/annotation"))
		}
	}
	return errs
}

func changedStatus(change GuestChange, _ config.Limits) field.ErrorList {
	return writtenStatus(equality.Semantic.DeepEqual(change.New.Status, change.Old.Status))
}

// movedNode finds a guest that was given to another node, or to none: the node that has it would let go of a guest that runs on, and
// another would start it again on the same disks. Only a migration moves a guest.
func movedNode(change GuestChange, limits config.Limits) field.ErrorList {
	was, now := change.Old.Status.NodeName, change.New.Status.NodeName
	if was == "" || was == now || slices.Contains(limits.Migrators, change.By.Name) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("status", "nodeName"),
		"a VMI stays on node '"+was+"' while it exists: delete the VMI, and create it again").WithOrigin("update/node")}
}

func changedVMStatus(now, was *v1.VirtualMachine, _ config.Limits) field.ErrorList {
	return writtenStatus(equality.Semantic.DeepEqual(now.Status, was.Status))
}

func writtenStatus(unchanged bool) field.ErrorList {
	if unchanged {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("status"),
		"only controllers may write it: change spec instead").WithOrigin("update/status")}
}

// newOwners finds VirtualMachines that are made an owner: whoever owns a guest deletes it, records its hardware and gives its successor
// its identity.
func newOwners(change GuestChange, _ config.Limits) (errs field.ErrorList) {
	for i, owner := range change.New.OwnerReferences {
		if isVM(owner) && !slices.ContainsFunc(change.Old.OwnerReferences, func(other metav1.OwnerReference) bool { return sameOwner(owner, other) }) {
			at := field.NewPath("metadata", "ownerReferences").Index(i)
			errs = append(errs, field.Forbidden(at, "only controllers may make a VirtualMachine the owner of a VMI").WithOrigin("vmi/owner"))
		}
	}
	return errs
}

// lostOwners finds VirtualMachines that are an owner no more. The garbage collector takes the reference when a VM is deleted and its guest
// is to outlive it.
func lostOwners(change GuestChange, limits config.Limits) (errs field.ErrorList) {
	if slices.Contains(limits.Collectors, change.By.Name) {
		return nil
	}
	for _, owner := range change.Old.OwnerReferences {
		if isVM(owner) && !slices.ContainsFunc(change.New.OwnerReferences, func(other metav1.OwnerReference) bool { return sameOwner(owner, other) }) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "ownerReferences"), "the VMI belongs to VirtualMachine '"+owner.Name+
				"': to keep the VMI, delete the VirtualMachine with --cascade=orphan").WithOrigin("vmi/owner"))
		}
	}
	return errs
}

func isVM(owner metav1.OwnerReference) bool {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind
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
			return field.ErrorList{field.Forbidden(field.NewPath("status", "nodeName"),
				"the launcher of node '"+node+"' may not write VMIs of node '"+named+"'").WithOrigin("update/other-node")}
		}
	}
	return nil
}
