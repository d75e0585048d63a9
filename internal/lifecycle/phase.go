package lifecycle

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/objects"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phaseReconciler sets phase Pending on new VMIs, including those without a VM, so that clients see a phase before a launcher claims the VMI.
type phaseReconciler struct {
	client client.Client
	now    func() time.Time
}

// Reconcile sets phase Pending on a VMI without a phase.
func (p *phaseReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vmi, err := objects.GetOrNil(ctx, p.client, request.NamespacedName, &v1.VirtualMachineInstance{})
	if vmi == nil || err != nil {
		return ctrl.Result{}, err
	}
	if vmi.Status.Phase != v1.VmPhaseUnset || vmi.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	pending := vmi.DeepCopy()
	pending.Status.Phase = v1.Pending
	pending.Status.PhaseTransitionTimestamps = append(pending.Status.PhaseTransitionTimestamps,
		v1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: v1.Pending, PhaseTransitionTimestamp: metav1.NewTime(p.now())})
	err = objects.PatchStatus(ctx, p.client, pending, vmi)
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
