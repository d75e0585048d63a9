package devices

import (
	"context"
	"strings"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reporter writes the findings into a Node: one label, one annotation and one condition. A policy allows this only for the node of its token.
type reporter struct {
	cluster client.Client
	now     func() time.Time
}

// writeNode does not patch a Node that has label, annotation and condition already.
func (r reporter) writeNode(ctx context.Context, node *corev1.Node, passt bool, machineTypes []string, found findings) error {
	if err := r.patchMetadata(ctx, node, passt, strings.Join(machineTypes, ",")); err != nil {
		return err
	}
	old := node.DeepCopy()
	if !setCondition(node, found, metav1.NewTime(r.now())) {
		return nil
	}
	// Conditions are merged by their type, so that the conditions of kubelet, which writes at the same time, stay.
	return r.cluster.Status().Patch(ctx, node, client.StrategicMergeFrom(old))
}

// patchMetadata adds the label of nodes on which passt runs, or removes it, and does the same with the annotation of the machine types.
func (r reporter) patchMetadata(ctx context.Context, node *corev1.Node, passt bool, machineTypes string) error {
	now, labelled := node.Labels[v1alpha1.LabelPasst]
	if labelled == passt && (!passt || now == "true") && node.Annotations[v1alpha1.AnnotationMachineTypes] == machineTypes {
		return nil
	}
	old := node.DeepCopy()
	if machineTypes != "" {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.AnnotationMachineTypes, machineTypes)
	} else {
		delete(node.Annotations, v1alpha1.AnnotationMachineTypes)
	}
	if passt {
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1alpha1.LabelPasst, "true")
	} else {
		delete(node.Labels, v1alpha1.LabelPasst)
	}
	return r.cluster.Patch(ctx, node, client.MergeFrom(old))
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
