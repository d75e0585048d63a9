package devices

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/nodecpu"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// report is what is written into a Node.
type report struct {
	// passt and kvm report that passt runs on the machine, and that guests can use /dev/kvm.
	passt, kvm   bool
	machineTypes []string
	found        findings
}

// reporter writes a report into a Node: labels, one annotation and one condition. A policy allows this only for the node of its token.
type reporter struct {
	cluster client.Client
	now     func() time.Time
}

// writeNode does not patch a Node that has labels, annotation and condition already.
func (r reporter) writeNode(ctx context.Context, node *corev1.Node, report report) error {
	if err := r.patchMetadata(ctx, node, report); err != nil {
		return err
	}
	old := node.DeepCopy()
	if !setCondition(node, report.found, metav1.NewTime(r.now())) {
		return nil
	}
	// Conditions are merged by their type, so that the conditions of kubelet, which writes at the same time, stay.
	return r.cluster.Status().Patch(ctx, node, client.StrategicMergeFrom(old))
}

// patchMetadata adds the labels of nodes on which passt runs and which have /dev/kvm, or removes them, and does the same with the annotation of the machine
// types. The labels of CPUs belong to 'launcher cpu'. Its pod is deleted when the machine has no /dev/kvm any more, and its labels about KVM are removed here.
func (r reporter) patchMetadata(ctx context.Context, node *corev1.Node, report report) error {
	old := node.DeepCopy()
	setLabel(node, v1alpha1.LabelPasst, report.passt)
	setLabel(node, v1alpha1.LabelKVM, report.kvm)
	if offer, _ := nodecpu.FromKiln.Read(node.Labels); !report.kvm && !offer.Emulated {
		maps.DeleteFunc(node.Labels, func(key, _ string) bool { return nodecpu.FromKiln.Owns(key) })
	}
	if machineTypes := strings.Join(report.machineTypes, ","); machineTypes != "" {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.AnnotationMachineTypes, machineTypes)
	} else {
		delete(node.Annotations, v1alpha1.AnnotationMachineTypes)
	}
	if maps.Equal(node.Labels, old.Labels) && maps.Equal(node.Annotations, old.Annotations) {
		return nil
	}
	return r.cluster.Patch(ctx, node, client.MergeFrom(old))
}

// setLabel gives a Node a label with the value 'true', or removes the label.
func setLabel(node *corev1.Node, key string, set bool) {
	if set {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, "true")
	} else {
		delete(node.Labels, key)
	}
}

// setCondition reports whether it has changed anything.
func setCondition(node *corev1.Node, found findings, now metav1.Time) bool {
	want := conditionOf(found)
	want.LastHeartbeatTime, want.LastTransitionTime = now, now
	for i, has := range node.Status.Conditions {
		if has.Type != want.Type {
			continue
		}
		if has.Status == want.Status && has.Reason == want.Reason && has.Message == want.Message {
			return false
		}
		if has.Status == want.Status {
			want.LastTransitionTime = has.LastTransitionTime
		}
		node.Status.Conditions[i] = want
		return true
	}
	node.Status.Conditions = append(node.Status.Conditions, want)
	return true
}

// conditionOf returns the condition with all findings, missing ones first. Unknown ones do not make it False.
func conditionOf(found findings) corev1.NodeCondition {
	var missing, unknown []string
	for _, f := range found {
		if f.unknown {
			unknown = append(unknown, f.text)
		} else {
			missing = append(missing, f.text)
		}
	}
	made := corev1.NodeCondition{Type: v1alpha1.ConditionGuests, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonNodeComplete}
	if len(missing) > 0 {
		made.Status, made.Reason = corev1.ConditionFalse, v1alpha1.ReasonNodeIncomplete
	}
	made.Message = condition.Message(strings.Join(append(missing, unknown...), "; "))
	if made.Message == "" {
		made.Message = "nothing is missing"
	}
	return made
}
