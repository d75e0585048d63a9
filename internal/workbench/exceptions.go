package workbench

import (
	"context"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/workbench/manifest"
	"github.com/kilnvm/kiln/pkg/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exceptionsOf returns the source of the GuestPolicyExceptions among the objects of inputs. It reads each namespace once. If they cannot be read, as without
// their definition or without the right to list them, nothing is permitted by them.
func exceptionsOf(ctx context.Context, in manifest.Inputs) policy.ExceptionSource {
	read := map[string][]*policy.Exception{}
	return func(namespace string) []*policy.Exception {
		found, known := read[namespace]
		if known {
			return found
		}
		var all v1alpha1.GuestPolicyExceptionList
		if err := in.Reader.List(ctx, &all, client.InNamespace(namespace)); err == nil {
			for i := range all.Items {
				found = append(found, policy.NewException(&all.Items[i]))
			}
		}
		slices.SortFunc(found, policy.CompareExceptions)
		read[namespace] = found
		return found
	}
}
