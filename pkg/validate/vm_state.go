package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: spec.running, spec.runStrategy and template.spec.volumes of a VM during a snapshot or a restore.
// A snapshot is inconsistent if volumes change or the VM starts meanwhile. A restore writes to disks that must not be in use.
// KubeVirt has these rules in validateSnapshotStatus and validateRestoreStatus, at the field spec.

// inProgress reads status.restoreInProgress and status.snapshotInProgress, which name the object that is at work.
func inProgress(vm, old *v1.VirtualMachine, _ config.Limits) (errs field.ErrorList) {
	if old == nil || vm.Spec.Template == nil || old.Spec.Template == nil {
		return nil
	}
	at := ofVM.Child("runStrategy")
	if vm.Spec.Running != nil {
		at = ofVM.Child("running")
	}
	switched := !equality.Semantic.DeepEqual(vm.Spec.Running, old.Spec.Running) || !equality.Semantic.DeepEqual(vm.Spec.RunStrategy, old.Spec.RunStrategy)
	if name := vm.Status.RestoreInProgress; name != nil && switched {
		errs = append(errs, field.Forbidden(at, "cannot be changed until restore '"+*name+"' completes").WithOrigin("vm/restore-running"))
	}
	name := vm.Status.SnapshotInProgress
	if name == nil {
		return errs
	}
	if switched {
		errs = append(errs, field.Forbidden(at, "cannot be changed until snapshot '"+*name+"' completes").WithOrigin("vm/snapshot-running"))
	}
	if !equality.Semantic.DeepEqual(vm.Spec.Template.Spec.Volumes, old.Spec.Template.Spec.Volumes) {
		at := ofVM.Child("template", "spec", "volumes")
		errs = append(errs, field.Forbidden(at, "cannot be changed until snapshot '"+*name+"' completes").WithOrigin("vm/snapshot-volumes"))
	}
	return errs
}
