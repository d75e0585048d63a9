package condition

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Log tells the log why the guest of an object waits or has failed. Administrators find there what stands in no event any more: events last an hour.
// kind is the key of the object's name: 'vm' or 'vmi'.
func Log(ctx context.Context, of client.Object, kind string, why Cause) {
	ctrl.LoggerFrom(ctx).Info("guest waits or has failed", "namespace", of.GetNamespace(), kind, of.GetName(), "reason", why.Reason, "message", Note(why.Message))
}
