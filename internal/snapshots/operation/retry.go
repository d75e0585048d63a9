package operation

import (
	"context"
	"time"

	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/internal/ownwrite"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// PollInterval is the interval between reads of objects that are not watched: VMIs, VolumeSnapshots, claims. KubeVirt uses the same interval.
	PollInterval = 5 * time.Second
	// NextStep is the time between two steps of one object if no event announces the second step.
	NextStep = 100 * time.Millisecond
	// conflictRetry is the time after which a write that lost a race is repeated.
	conflictRetry = 50 * time.Millisecond
)

// Backoff returns the time until the next look at an object that has waited for the given time: a tenth of it, from PollInterval to 5 minutes. Tenants
// may create thousands of objects that wait forever.
func Backoff(waited time.Duration) time.Duration {
	const fraction, longest = 10, 5 * time.Minute
	return min(max(waited/fraction, PollInterval), longest)
}

// ReconcileFunc takes the next step of an object. It returns the time until the step after that, and 0 if only an event can lead to another step.
type ReconcileFunc func(context.Context, types.NamespacedName) (time.Duration, error)

// RetryConflicts returns a reconciler that repeats a step soon after a conflict. A conflict is not an error: another writer was faster.
func RetryConflicts(step ReconcileFunc) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		after, err := step(ctx, request.NamespacedName)
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		}
		if ownwrite.Gone(err, request.Name, "virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores", "virtualmachineclones") {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: after}, err
	})
}

// IsRefused reports whether the API server refused an object because of its content, a policy or a quota. Trying again does not help until somebody
// changes one of them.
func IsRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || condition.Oversized(err)
}
