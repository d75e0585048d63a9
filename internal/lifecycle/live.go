package lifecycle

import (
	"context"
	"fmt"
	"math"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/validate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// With the rollout strategy LiveUpdate an edit of a VM changes its VMI where the guest can get the change while it runs: state 3 follows state 1.
// internal/vmipod brings it to the pod and to libvirt.

// changesLive reports whether the guest of a VM can be changed while it runs: one on a bare machine cannot.
func (c *Controller) changesLive(s *state) bool {
	return c.cluster().Limits.LiveUpdate != nil && s.vmi.Status.Phase == v1.Running && len(s.vmi.Status.ActivePods) > 0
}

// liveVMI returns the VMI that runs with the changes that need no restart. It also takes the ceilings of CPUs and memory from what runs into the next VMI,
// where the VM leaves them to the cluster: they follow from what grows, and what was prepared at the boot stays.
func (c *Controller) liveVMI(ctx context.Context, s *state, of vmiChange) (*v1.VirtualMachineInstance, error) {
	runs, next := of.runs, of.next
	live := runs.DeepCopy()
	if !c.changesLive(s) {
		return live, nil
	}
	least, err := c.least(ctx, runs)
	if err != nil {
		return nil, err
	}
	live.Spec = validate.LiveSpec(runs, next, least)
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

// everything is more than a guest can have.
var everything = v1alpha1.LiveHardware{VCPUs: math.MaxInt32, MemoryKiB: math.MaxInt64}

// least returns what cannot be taken from a guest that runs: what libvirt runs, by state 4, while a growth waits for the pod.
func (c *Controller) least(ctx context.Context, runs *v1.VirtualMachineInstance) (v1alpha1.LiveHardware, error) {
	if !validate.Waits(runs, v1.VirtualMachineInstanceVCPUChange) && !validate.Waits(runs, v1.VirtualMachineInstanceMemoryChange) {
		return v1alpha1.LiveHardware{}, nil
	}
	hardware, err := Hardware(ctx, c.Live, client.ObjectKeyFromObject(runs))
	if err != nil {
		return v1alpha1.LiveHardware{}, err
	}
	if hardware == nil || hardware.Status.Running == nil || hardware.Status.Running.UID != runs.UID {
		return everything, nil // nobody knows yet
	}
	return hardware.Status.Running.LiveHardware, nil
}

// vmiChange is a VMI that runs, the VMI that it becomes, and the one that a start would make.
type vmiChange struct{ runs, live, next *v1.VirtualMachineInstance }

// changeLive writes the VMI. If nothing is left that waits for a restart, the VMI is one that the VM as it is now has made; else nobody can say what the VMI
// was made from, and the next edit is compared whole.
func (c *Controller) changeLive(ctx context.Context, of vmiChange, waits []string) error {
	const digest, generation = v1alpha1.AnnotationTemplateDigest, v1.VirtualMachineGenerationAnnotation
	same := equality.Semantic.DeepEqual(of.runs.Spec, of.live.Spec)
	if same && (len(waits) > 0 || of.runs.Annotations[digest] != "") {
		return nil // an edit that the VMI need not follow
	}
	patched := of.live.DeepCopy()
	metav1.SetMetaDataAnnotation(&patched.ObjectMeta, v1alpha1.AnnotationEjected, validate.Ejected(of.runs, of.live))
	if patched.Annotations[v1alpha1.AnnotationEjected] == "" {
		delete(patched.Annotations, v1alpha1.AnnotationEjected)
	}
	if delete(patched.Annotations, digest); len(waits) == 0 {
		patched.Annotations[digest], patched.Annotations[generation] = of.next.Annotations[digest], of.next.Annotations[generation]
	}
	err := c.Live.Patch(ctx, patched, client.MergeFromWithOptions(of.runs, client.MergeFromWithOptimisticLock{}))
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	return fmt.Errorf("changing the virtual machine instance that runs: %v", err) //nolint:errorlint // who reads it must not take it for a refusal of the next VMI
}
