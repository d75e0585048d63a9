package lifecycle

import (
	"context"
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/record"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A VM that was restored has another UID than the one that was backed up. Its seed is still the UID of that one, by which the records of
// its hardware are labelled: they are the VM's if they were restored with it.

// adopt makes the restored records of a VM its own, before its first start. Those of its own boots win.
func (c *Controller) adopt(ctx context.Context, vm *v1.VirtualMachine) error {
	seed := vm.Annotations[v1alpha1.AnnotationIdentity]
	key := client.ObjectKeyFromObject(vm)
	// A seed may be any text that its owner has written; a UID is a label.
	if seed == "" || seed == string(vm.UID) || len(validation.IsValidLabelValue(seed)) > 0 || c.adopted.has(key, vm.UID, "") {
		return nil
	}
	own, err := c.records(ctx, vm)
	if err != nil {
		return err
	}
	if len(own) > 0 {
		c.adopted.note(key, vm.UID, "")
		return nil
	}
	var restored appsv1.ControllerRevisionList
	if err := c.Live.List(ctx, &restored, client.InNamespace(vm.Namespace), client.MatchingLabels{v1alpha1.LabelFrontendOf: seed}); err != nil {
		return fmt.Errorf("listing the restored hardware records of '%s': %w", vm.Name, err)
	}
	for i := range restored.Items {
		saved := &restored.Items[i]
		if _, err := record.Parse(string(saved.Data.Raw)); err != nil || !abandoned(saved, vm) {
			continue
		}
		was := saved.DeepCopy()
		saved.Labels[v1alpha1.LabelFrontendOf] = string(vm.UID)
		saved.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
		// The garbage collector may have been faster: then the record is gone.
		err := c.Live.Patch(ctx, saved, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking over the hardware record '%s': %w", saved.Name, err)
		}
	}
	return nil
}

// abandoned tells whether a record is nobody else's: it has no owner, or one that went before this VM got its name.
func abandoned(record *appsv1.ControllerRevision, vm *v1.VirtualMachine) bool {
	for _, owner := range record.OwnerReferences {
		if owner.Kind != v1.VirtualMachineGroupVersionKind.Kind || owner.Name != vm.Name {
			return false
		}
	}
	return true
}
