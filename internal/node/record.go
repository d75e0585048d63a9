package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "kubevirt.io/api/core/v1"
)

// keepRecord writes a VMI with a new record; the answer comes back as the next event. The owner's annotations may leave no room for the
// record, which no repetition changes: the owner is told.
func (n *Node) keepRecord(ctx context.Context, vmi *v1.VirtualMachineInstance) error {
	err := n.Update(ctx, vmi)
	if !apierrors.IsInvalid(err) && !condition.Oversized(err) {
		return err
	}
	return &refusal{reasonNotRecordable, fmt.Sprintf("the record of the guest's hardware (annotation '%s', %d bytes) does not fit: "+
		"all annotations together may have 262144 bytes, and the object 1.5 MiB; shorten the annotations or user data of the guest: %v",
		v1alpha1.AnnotationFrontend, len(vmi.Annotations[v1alpha1.AnnotationFrontend]), err)}
}

// recordFrontend writes the record into the VMI's annotation and tells whether that changed it.
func recordFrontend(vmi *v1.VirtualMachineInstance, record record.Record) (bool, error) {
	raw, err := json.Marshal(record)
	if err != nil || vmi.Annotations[v1alpha1.AnnotationFrontend] == string(raw) {
		return false, err
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[v1alpha1.AnnotationFrontend] = string(raw)
	return true, nil
}
