package validate

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: metadata, spec and status of a VMI that exists, and status of a VM.
// A VMI was started from its spec, so only Kiln's controller changes the spec, and only what the guest gets while it runs (updates_live.go). Controllers
// write its status, reserved labels and owner references; a launcher writes them in the VMIs of its own node.
// KubeVirt has these rules in VMIUpdateAdmitter.Admit, which lets KubeVirt's accounts change the spec in order to hotplug, and reverts a
// user's change of the status in silence. It does not judge owner references and status.nodeName.

// Account is the user or service account that requests a change.
type Account struct {
	// Name is empty on create, whose rules do not depend on it.
	Name string
	// Node is the node of the pod that the token is bound to (authentication.kubernetes.io/node-name), empty for another token.
	Node string
}

// GuestChange is an update of a VMI.
type GuestChange struct {
	New, Old *v1.VirtualMachineInstance
	By       Account
}

var (
	ownerRules  = []Rule{{Name: "vmi/owner", KubeVirt: KubeVirtAdmits, ControllersMay: true}}
	nodeRules   = []Rule{{Name: "update/other-node"}}
	writerRules = []Rule{{Name: "update/status", KubeVirt: KubeVirtAdmits, ControllersMay: true}}
)

var (
	createRules = []changeRule{{nameOfVMI, domainNameRules}, {newOwners, ownerRules}, {requestedHardware, hardwareRules}}
	changeRules = []changeRule{
		{changedReserved, []Rule{{Name: "security/reserved-label-change", ControllersMay: true}}},
		{changedSpec, []Rule{{Name: "update/spec"}}},
		{changedAnnotations, []Rule{{Name: "update/annotation", KubeVirt: KubeVirtAdmits, ControllersMay: true}}},
		{newOwners, ownerRules},
		{lostOwners, ownerRules},
		{otherNode, nodeRules},
	}
	statusRules = []changeRule{
		{changedStatus, writerRules},
		{otherNode, nodeRules},
		{movedNode, []Rule{{Name: "update/node", KubeVirt: KubeVirtAdmits}}},
	}
	vmStatusRules = append([]vmRule{{changedVMStatus, writerRules}}, volumeRequestRules...)
)

// controlled are the annotations from which later VMIs of a VM are made: generation, identity seed and pins. The controller copies them with
// its own rights, so a tenant must not choose their values.
var controlled = []string{v1alpha1.AnnotationGeneration, v1alpha1.AnnotationIdentity, v1alpha1.AnnotationPins, v1alpha1.AnnotationEjected,
	v1alpha1.AnnotationFrontend, v1alpha1.AnnotationInterfaceAddresses}

// For returns errs without the errors of rules from which the user is exempt: rules with ControllersMay, if the user is one of
// limits.Controllers. The Origin of an error is the name of its rule.
func For(user string, limits config.Limits, errs field.ErrorList) field.ErrorList {
	if !slices.Contains(limits.Controllers, user) {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return declared[err.Origin].ControllersMay })
}

// GuestUpdate judges an update of a VMI's spec and metadata. The API server ignores the status in such an update, because it is a subresource.
func GuestUpdate(change GuestChange, limits config.Limits) field.ErrorList {
	return For(change.By.Name, limits, judgeChange(changeRules, change, limits))
}

// GuestStatusUpdate judges an update of a VMI's status. The API server ignores spec and metadata in such an update.
func GuestStatusUpdate(change GuestChange, limits config.Limits) field.ErrorList {
	return For(change.By.Name, limits, judgeChange(statusRules, change, limits))
}

// VMI judges a new VirtualMachineInstance by the rules that do not apply to a VM's template: owners and the annotation kilnvm.io/hardware. Guest judges its
// spec.
func VMI(vmi *v1.VirtualMachineInstance) field.ErrorList {
	return judgeChange(createRules, GuestChange{New: vmi, Old: noGuest}, config.Limits{})
}

// noGuest is the old object of a create.
var noGuest = &v1.VirtualMachineInstance{}

func judgeChange(rules []changeRule, change GuestChange, limits config.Limits) (errs field.ErrorList) {
	for i := range rules {
		errs = append(errs, rules[i].judge(change, limits)...)
	}
	return errs
}

// VMStatusUpdate judges an update of a VM's status, and the volume requests in it.
func VMStatusUpdate(now, was *v1.VirtualMachine) (errs field.ErrorList) {
	for i := range vmStatusRules {
		errs = append(errs, vmStatusRules[i].judge(now, was, config.Limits{})...)
	}
	return errs
}

// changedSpec has three exemptions: KubeVirt's accounts change the spec of a VMI that runs, controllers may change the grace period of a guest that is to be
// stopped, and Kiln's controller makes the changes of LiveSpec. Before a VMI runs, nobody changes its spec: a pod is made of it.
func changedSpec(change GuestChange, limits config.Limits) field.ErrorList {
	if slices.Contains(limits.KubeVirt, change.By.Name) && change.Old.Status.Phase == v1.Running {
		return nil
	}
	wanted := change.Old.Spec
	if slices.Contains(limits.Controllers, change.By.Name) {
		wanted.TerminationGracePeriodSeconds = change.New.Spec.TerminationGracePeriodSeconds
	}
	if equality.Semantic.DeepEqual(change.New.Spec, wanted) {
		return nil
	}
	if limits.LiveUpdate != nil && slices.Contains(limits.Updaters, change.By.Name) &&
		// Kiln's controller knows what libvirt runs, and takes no growth back that the guest has got.
		equality.Semantic.DeepEqual(change.New.Spec, LiveSpec(change.Old, change.New, v1alpha1.LiveHardware{})) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"cannot be changed while the VMI exists: change its VirtualMachine, and restart it").WithOrigin("update/spec")}
}

// changedAnnotations refuses to set, change or remove controlled annotations.
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

// movedNode refuses another status.nodeName, or none: the launcher of the first node would lose a VMI that still runs, and another would start
// it again on the same disks. Only accounts that migrate VMIs (limits.Migrators) may.
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

// writtenStatus refuses a change of a status; For exempts controllers.
func writtenStatus(unchanged bool) field.ErrorList {
	if unchanged {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("status"),
		"only controllers may write it: change spec instead").WithOrigin("update/status")}
}

// newOwners refuses VirtualMachines as new owners: an owner deletes the VMI, records its hardware and gives its identity to the next one.
func newOwners(change GuestChange, _ config.Limits) (errs field.ErrorList) {
	for i, owner := range change.New.OwnerReferences {
		if isVM(owner) && !slices.ContainsFunc(change.Old.OwnerReferences, func(other metav1.OwnerReference) bool { return sameOwner(owner, other) }) {
			at := field.NewPath("metadata", "ownerReferences").Index(i)
			errs = append(errs, field.Forbidden(at, "only controllers may make a VirtualMachine the owner of a VMI").WithOrigin("vmi/owner"))
		}
	}
	return errs
}

// lostOwners refuses to remove a VirtualMachine from the owners: the VMI would outlive it, and the VM would start another on the same disks.
// The garbage collector may, which removes the reference after 'kubectl delete vm --cascade=orphan'.
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

// isVM compares the group without its version: an owner may be of any version that the API serves.
func isVM(owner metav1.OwnerReference) bool {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1.GroupVersion.Group && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind
}

// sameOwner ignores blockOwnerDeletion, which the garbage collector resets.
func sameOwner(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false)
}

// otherNode refuses writes of a launcher to VMIs of other nodes, so that a node that was taken over reaches its own VMIs only. In KubeVirt it
// is the restriction of virt-handler under the same feature gate. A launcher outside the cluster has a token that is bound to no node: only
// RBAC restricts it, while KubeVirt refuses such a handler. The node that KubeVirt migrates a guest to takes it over.
func otherNode(change GuestChange, limits config.Limits) field.ErrorList {
	node := change.By.Node
	if node == "" || !slices.Contains(limits.Launchers, change.By.Name) || !limits.Gates.Enabled("NodeRestriction") {
		return nil
	}
	if m := change.Old.Status.MigrationState; m != nil && m.TargetNode == node && slices.Contains(limits.KubeVirt, change.By.Name) {
		return nil
	}
	// Both: a launcher may neither write a VMI of another node nor assign one to it.
	for _, named := range []string{change.Old.Status.NodeName, change.New.Status.NodeName} {
		if named != "" && named != node {
			return field.ErrorList{field.Forbidden(field.NewPath("status", "nodeName"),
				"the launcher of node '"+node+"' may not write VMIs of node '"+named+"'").WithOrigin("update/other-node")}
		}
	}
	return nil
}
