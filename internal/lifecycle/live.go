package lifecycle

import (
	"context"
	"fmt"
	"math"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/objects"
	"github.com/kilnvm/kiln/internal/ownership"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// With rollout strategy LiveUpdate, an edit of a VM changes the running VMI, as far as the guest can get the change while it runs: state 3 follows state 1.
// internal/vmipod applies the change to the pod and to libvirt.

// canChangeLive reports whether the guest of a VM can be changed while it runs. A guest on a bare machine cannot.
func (c *Controller) canChangeLive(s *state) bool {
	return c.clusterConfig().Limits.LiveUpdate != nil && s.vmi.Status.Phase == v1.Running && len(s.vmi.Status.ActivePods) > 0
}

// vmiWithLiveChanges returns the running VMI with those changes that need no restart. If the VM does not set the maximum of CPUs or memory, it also copies the
// maximum of the running VMI into the next VMI: Kiln derives the maximum from the current size, which grows, while the guest keeps the maximum that it booted
// with.
func (c *Controller) vmiWithLiveChanges(ctx context.Context, s *state, change vmiChange) (*v1.VirtualMachineInstance, error) {
	running, next := change.running, change.next
	live := running.DeepCopy()
	if !c.canChangeLive(s) {
		return live, nil
	}
	minimum, err := c.minimumLiveHardware(ctx, running)
	if err != nil {
		return nil, err
	}
	live.Spec = validate.LiveSpec(running, next, minimum)
	asked, has, wants := s.vm.Spec.Template.Spec.Domain, live.Spec.Domain, next.Spec.Domain
	if (asked.CPU == nil || asked.CPU.MaxSockets == 0) && has.CPU != nil && wants.CPU != nil && has.CPU.Sockets == wants.CPU.Sockets {
		wants.CPU.MaxSockets = has.CPU.MaxSockets
	}
	if (asked.Memory == nil || asked.Memory.MaxGuest == nil) && has.Memory != nil && wants.Memory != nil &&
		equality.Semantic.DeepEqual(has.Memory.Guest, wants.Memory.Guest) {
		wants.Memory.MaxGuest = has.Memory.MaxGuest
	}
	return live, nil
}

// unlimitedHardware is more than any guest can have.
var unlimitedHardware = v1alpha1.LiveHardware{VCPUs: math.MaxInt32, MemoryKiB: math.MaxInt64}

// minimumLiveHardware returns the CPUs and memory that cannot be taken from a running guest: while a growth waits for the pod, what libvirt currently runs
// (state 4).
func (c *Controller) minimumLiveHardware(ctx context.Context, running *v1.VirtualMachineInstance) (v1alpha1.LiveHardware, error) {
	if !validate.Waits(running, v1.VirtualMachineInstanceVCPUChange) && !validate.Waits(running, v1.VirtualMachineInstanceMemoryChange) {
		return v1alpha1.LiveHardware{}, nil
	}
	hardware, err := ownership.ReadHardware(ctx, c.Live, client.ObjectKeyFromObject(running))
	if err != nil {
		return v1alpha1.LiveHardware{}, err
	}
	if hardware == nil || hardware.Status.Running == nil || hardware.Status.Running.UID != running.UID {
		return unlimitedHardware, nil // it is not known yet
	}
	return hardware.Status.Running.LiveHardware, nil
}

// vmiChange contains the running VMI, that VMI with the changes that need no restart, and the VMI that a start would create.
type vmiChange struct{ running, live, next *v1.VirtualMachineInstance }

// patchRunningVMI writes the changes that need no restart. If no other change waits for a restart, the VMI gets the template digest and generation of the
// current VM. Otherwise no generation of the VM describes the VMI, so it loses its digest, and the next edit is compared field by field.
func (c *Controller) patchRunningVMI(ctx context.Context, change vmiChange, waits []string) error {
	const digest, generation = v1alpha1.AnnotationTemplateDigest, v1.VirtualMachineGenerationAnnotation
	same := equality.Semantic.DeepEqual(change.running.Spec, change.live.Spec)
	if same && (len(waits) > 0 || change.running.Annotations[digest] != "") {
		return nil // the edit changes nothing of the running VMI
	}
	patched := change.live.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, v1alpha1.AnnotationEjected, validate.Ejected(change.running, change.live))
	if patched.Annotations[v1alpha1.AnnotationEjected] == "" {
		delete(patched.Annotations, v1alpha1.AnnotationEjected)
	}
	if delete(patched.Annotations, digest); len(waits) == 0 {
		patched.Annotations[digest], patched.Annotations[generation] = change.next.Annotations[digest], change.next.Annotations[generation]
	}
	err := objects.Patch(ctx, c.Live, patched, change.running)
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	return fmt.Errorf("changing the virtual machine instance that runs: %v", err) //nolint:errorlint // callers must not mistake it for a refusal of the next VMI
}
