package condition

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Log logs why the guest of an object waits or has failed, because events only last an hour. kind is the log key of the object's name: 'vm' or 'vmi'.
func Log(ctx context.Context, of client.Object, kind string, why Cause) {
	ctrl.LoggerFrom(ctx).Info("guest waits or has failed", "namespace", of.GetNamespace(), kind, of.GetName(), "reason", why.Reason, "message", Note(why.Message))
}
