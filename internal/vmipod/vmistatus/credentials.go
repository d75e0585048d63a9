package vmistatus

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/guestagent"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// credentialReport returns what became of the accessCredentials for the guest agent; nil if the launcher has not tried yet, or its node does not answer.
func (r Report) credentialReport(lost *condition.Cause) *v1alpha1.GuestCredentials {
	if lost != nil || r.RunningDomain() == nil { // the cache has no accessCredentials of the VMI: only the launcher knows whether there are some
		return nil
	}
	return r.GuestPod.Status.Credentials
}

// setCredentials writes condition AccessCredentialsSynchronized of KubeVirt, which has no reason there.
func setCredentials(vmi *v1.VirtualMachineInstance, result *v1alpha1.GuestCredentials) {
	if result == nil {
		condition.Clear(vmi, v1.VirtualMachineInstanceAccessCredentialsSynchronized)
		return
	}
	synchronized := v1.VirtualMachineInstanceCondition{Type: v1.VirtualMachineInstanceAccessCredentialsSynchronized, Status: corev1.ConditionTrue}
	if result.Failure != "" {
		synchronized.Status = corev1.ConditionFalse
		synchronized.Message = condition.Message(guestagent.Text(result.Failure, v1alpha1.LongestCredentialFailure))
	}
	condition.Set(vmi, synchronized)
}
