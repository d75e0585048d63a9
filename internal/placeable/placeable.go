// Package placeable judges whether a cluster could run the guest of a VM: condition Placeable. It takes the pod that pkg/pod makes of the VM, and the nodes,
// quotas and limits as they were read. It reads and writes nothing. Package internal/placeable/observer reads them.
//
// A verdict is True if nothing that is judged here keeps the pod from a node. What changes from minute to minute is left to the scheduler: what other pods
// use of a node, affinity to other pods, and the node of a bound volume. A quota is judged with what is used of it, because the API server refuses the
// pod by that.
package placeable

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/nodecpu"
	"github.com/kilnvm/kiln/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Need is what the guest of a VM needs of its cluster.
type Need struct {
	// Pod is the pod of the guest. It is nil if Mistakes say why there can be none.
	Pod *corev1.Pod
	// MachineType is machine.type of the guest. It is empty if it is not known.
	MachineType string
	// CPU is what the guest needs of the CPU of its node. Pod does not select nodes by it.
	CPU nodecpu.Need
	// Mistakes are the errors of pkg/pod, and those about other objects that do not exist.
	Mistakes field.ErrorList
	// Awaited are the claims that do not exist yet, and that the DataVolumes of dataVolumeTemplates are to make.
	Awaited []string
	// Created reports that the API server has accepted the pod: quotas, LimitRanges and Pod Security have no say any more.
	Created bool
}

// Cluster is what a pod of one namespace finds.
type Cluster struct {
	// Nodes are all nodes. Their labels, machine types, taints, spec.unschedulable, condition Ready and allocatable resources are read.
	Nodes []corev1.Node
	// Fleet is of the same nodes. If it is nil, each verdict makes one.
	Fleet *nodecpu.Fleet
	// NamespaceLabels choose the level of Pod Security.
	NamespaceLabels map[string]string
	Quotas          []corev1.ResourceQuota
	LimitRanges     []corev1.LimitRange
}

// Verdict is the content of condition Placeable.
type Verdict struct {
	Status corev1.ConditionStatus
	condition.Cause
}

// RuleStorageClassMissing is the origin of errors about a StorageClass that does not exist.
const RuleStorageClassMissing = "placeable/storage-class-missing"

// reasonsByOrigin are the reasons for mistakes, by the origin of the error. The first one that is found counts.
var reasonsByOrigin = []condition.OriginReason{
	{Origin: pod.RuleClaimMissing, Reason: v1alpha1.ReasonFailedPvcNotFound},
	{Origin: pod.RuleNetworkMissing, Reason: v1alpha1.ReasonNetworkNotFound},
	{Origin: RuleStorageClassMissing, Reason: v1alpha1.ReasonStorageClassNotFound},
	{Origin: pod.RuleReferenceMissing, Reason: v1alpha1.ReasonReferenceNotFound},
}

// remedies complete the mistakes that name none.
var remedies = map[string]string{
	v1alpha1.ReasonNetworkNotFound: ": create the NetworkAttachmentDefinition, or correct networks of the VM",
}

// Judge returns the verdict on a guest: first what does not exist, then what the namespace forbids, then the nodes.
func Judge(need Need, cluster Cluster) Verdict {
	if len(need.Mistakes) > 0 || need.Pod == nil {
		reason := reasonOf(need.Mistakes)
		return no(reason, condition.Mistakes(need.Mistakes)+remedies[reason])
	}
	if !need.Created {
		admitted := need.Pod
		if len(cluster.LimitRanges)+len(cluster.Quotas) > 0 { // nothing else reads the defaults
			admitted = withDefaults(admitted, cluster.LimitRanges)
		}
		for _, judge := range []func(*corev1.Pod, Cluster) *condition.Cause{judgeLimitRanges, judgePodSecurity, judgeQuotas} {
			if cause := judge(admitted, cluster); cause != nil {
				return no(cause.Reason, cause.Message)
			}
		}
	}
	if cluster.Fleet == nil {
		cluster.Fleet = nodecpu.NewFleet(cluster.Nodes)
	}
	verdict := judgeNodes(need, cluster)
	if verdict.Status != corev1.ConditionTrue {
		return verdict
	}
	if len(need.Awaited) > 0 {
		return Unknown(v1alpha1.ReasonClaimAwaited, "a node has a place for the guest, but these PersistentVolumeClaims do not exist before the DataVolumes of "+
			"dataVolumeTemplates have made them: "+quoteNames(need.Awaited))
	}
	if text := unjudged(need.Pod); text != "" {
		return Unknown(v1alpha1.ReasonNotJudged, text)
	}
	return verdict
}

// reasonOf returns the reason for mistakes. It is ReasonNotPlaceable if one of them is about no missing object, because creating objects does not help then.
func reasonOf(mistakes field.ErrorList) string {
	return condition.ReasonByOrigin(mistakes, reasonsByOrigin, v1alpha1.ReasonNotPlaceable)
}

// unjudged says what of a pod only others can judge; nothing if this package has judged all of it.
func unjudged(of *corev1.Pod) string {
	switch name := of.Spec.SchedulerName; {
	case name != "" && name != corev1.DefaultSchedulerName:
		return "a node has what the pod of the guest requests, but scheduler " + quote(name) + " chooses it by rules of its own"
	case len(of.Spec.ResourceClaims) > 0:
		return "a node has what the pod of the guest requests, but only the drivers of its ResourceClaims know whether it has the devices"
	}
	return ""
}

// fits returns the verdict on a guest that fits a node.
func fits() Verdict {
	return Verdict{corev1.ConditionTrue, condition.Cause{Reason: v1alpha1.ReasonNodeFits,
		Message: "a node has the labels, devices and size that the guest needs"}}
}

// Runs returns the verdict on a guest that runs. Nothing has to be read for it.
func Runs() Verdict {
	return Verdict{corev1.ConditionTrue, condition.Cause{Reason: v1alpha1.ReasonGuestRuns, Message: "the guest runs on a node"}}
}

func no(reason, message string) Verdict { return verdictOf(corev1.ConditionFalse, reason, message) }

// Unknown returns the verdict if there is no answer.
func Unknown(reason, message string) Verdict {
	return verdictOf(corev1.ConditionUnknown, reason, message)
}

// verdictOf bounds the message. Tenants may have written parts of it.
func verdictOf(status corev1.ConditionStatus, reason, message string) Verdict {
	return Verdict{status, condition.Cause{Reason: reason, Message: condition.Message(condition.OneLine(message))}}
}
