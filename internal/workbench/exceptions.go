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
	type key struct{ namespace, policy string }
	read, found := map[string]bool{}, map[key][]*policy.Exception{}
	return func(namespace, name string) []*policy.Exception {
		if !read[namespace] {
			read[namespace] = true
			var all v1alpha1.GuestPolicyExceptionList
			if err := in.Reader.List(ctx, &all, client.InNamespace(namespace)); err != nil {
				return nil
			}
			for i := range all.Items {
				one := policy.NewException(&all.Items[i])
				for _, named := range one.Policies() {
					found[key{namespace, named}] = append(found[key{namespace, named}], one)
				}
			}
			for of := range found {
				slices.SortFunc(found[of], policy.CompareExceptions)
			}
		}
		return found[key{namespace, name}]
	}
}
