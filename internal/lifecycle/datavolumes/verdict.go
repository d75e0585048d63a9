package datavolumes

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// State is what an existing DataVolume or claim means for a VM with a template of its name.
type State int

const (
	// Ready means that the guest may start. A claim that is filled when its first consumer comes is ready, too: the pod of the guest waits for it.
	Ready State = iota
	// Waiting means that something will happen without the owner of the VM.
	Waiting
	// Retried means that an import has failed, and that CDI tries it again.
	Retried
	// Failed means that somebody must do something.
	Failed
)

// Verdict is a state with its reason. Reason and Message are empty if the state is Ready.
type Verdict struct {
	State State
	condition.Cause
}

func verdict(state State, reason, format string, a ...any) Verdict {
	return Verdict{state, condition.Cause{Reason: reason, Message: condition.OneLine(fmt.Sprintf(format, a...))}}
}

// Judge judges a DataVolume that has the name of a template of a VM. A DataVolume without a controller is used and stays what it is, because users make
// DataVolumes beside their VMs. The phases are those for which KubeVirt waits.
func Judge(volume *cdi.DataVolume, vm *v1.VirtualMachine) Verdict {
	name := quoted("DataVolume", "", volume.Name)
	if wrong := judgeController(volume, vm, name); wrong.State != Ready {
		return wrong
	}
	running, bound := conditionOf(volume, cdi.DataVolumeRunning), conditionOf(volume, cdi.DataVolumeBound)
	switch phase := volume.Status.Phase; {
	case phase == cdi.Succeeded, phase == cdi.WaitForFirstConsumer, phase == cdi.PendingPopulation:
		return Verdict{}
	case phase == cdi.Failed:
		return verdict(Failed, v1alpha1.ReasonFailedDataVolumeImport, "%s has failed%s", name, because(running))
	case phase == cdi.Pending && bound != nil && bound.Status != corev1.ConditionTrue && bound.Reason == "ErrExceededQuota":
		return verdict(Failed, v1alpha1.ReasonFailedDataVolumeImport, "a quota of the namespace forbids the claim of %s%s", name, because(bound))
	case running != nil && running.Status == corev1.ConditionFalse && (running.Reason == "Error" || running.Reason == "ImagePullFailed"):
		return verdict(Retried, v1alpha1.ReasonFailedDataVolumeImport, "the last try to fill %s has failed, and CDI tries again%s", name, because(running))
	case phase == cdi.PhaseUnset:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s is new: CDI has not begun to fill it", name)
	default:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s is not filled yet: its phase is '%.64s'", name, phase)
	}
}

// JudgeClaim judges a claim that has the name of a template of a VM and no DataVolume. A claim that its owner made beside the VM is used and stays the
// owner's. served reports that the cluster serves DataVolumes: if CDI was uninstalled, its claims remain.
func JudgeClaim(claim metav1.Object, vm *v1.VirtualMachine, served bool) Verdict {
	name := quoted("PersistentVolumeClaim", "", claim.GetName())
	owner := metav1.GetControllerOf(claim)
	switch {
	case claim.GetDeletionTimestamp() != nil:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s is being deleted", name)
	case owner != nil && isOf(owner, cdi.SchemeGroupVersion.Group, "DataVolume") && served:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s is left of a DataVolume that does not exist, and is about to be deleted", name)
	case owner != nil && isVM(owner):
		return judgeController(claim, vm, name)
	}
	return Verdict{}
}

// judgeController judges who controls an object. Two VMs must not use one disk.
func judgeController(object metav1.Object, vm *v1.VirtualMachine, name string) Verdict {
	owner := metav1.GetControllerOf(object)
	switch {
	case object.GetDeletionTimestamp() != nil:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s is being deleted", name)
	case owner == nil, isVM(owner) && owner.Name == vm.Name && owner.UID == vm.UID:
		return Verdict{}
	case isVM(owner) && owner.Name == vm.Name:
		return verdict(Waiting, v1alpha1.ReasonProvisioning, "%s belongs to a deleted virtual machine of this name, and is about to be deleted", name)
	}
	return verdict(Failed, v1alpha1.ReasonFailedDataVolumeCreate, "%s belongs to %s: give the template of this virtual machine another name", name,
		quoted(fmt.Sprintf("%.63s", owner.Kind), "", owner.Name))
}

func isVM(owner *metav1.OwnerReference) bool {
	return isOf(owner, v1.GroupVersion.Group, v1.VirtualMachineGroupVersionKind.Kind)
}

func isOf(owner *metav1.OwnerReference, group, kind string) bool {
	of, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && of.Group == group && owner.Kind == kind
}

// because returns the message of a condition, as the end of a sentence; empty if it has no message.
func because(c *cdi.DataVolumeCondition) string {
	if c == nil || c.Message == "" {
		return ""
	}
	return ": " + c.Message
}

func conditionOf(volume *cdi.DataVolume, kind cdi.DataVolumeConditionType) *cdi.DataVolumeCondition {
	for i := range volume.Status.Conditions {
		if volume.Status.Conditions[i].Type == kind {
			return &volume.Status.Conditions[i]
		}
	}
	return nil
}
