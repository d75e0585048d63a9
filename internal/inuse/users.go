package inuse

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kilnvm/kiln/internal/resolve"
	"github.com/kilnvm/kiln/internal/revision"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pageSize is the number of VMs in one answer of the API server. Tenants may write VMs of a megabyte, which an answer contains whole.
	pageSize = client.Limit(50)
	// MostNames is the number of names that Users keep of a namespace.
	MostNames = 5
)

// Users are the VMs that use an object.
type Users struct {
	// Pinned and Unpinned count them.
	Pinned, Unpinned int
	// names are the first names of each namespace, in the order of the API server, which is alphabetical.
	names map[string][]string
}

// CountAll returns the number of VMs.
func (u *Users) CountAll() int { return u.Pinned + u.Unpinned }

// Namespaces returns the namespaces of the VMs, sorted.
func (u *Users) Namespaces() []string { return slices.Sorted(maps.Keys(u.names)) }

// NamesIn returns the names of the first VMs of a namespace.
func (u *Users) NamesIn(namespace string) []string { return u.names[namespace] }

// FindUsers counts the VMs that use an object, which raw contains as JSON. It reads the VMs of the object's namespace, or of all namespaces if the kind has
// none, from the API server, because no cache of the webhook contains VMs. If it returns an error, such as the end of the context, there may be more users than
// it has found until then. VMIs without a VM do not count, and neither do VMs that are being deleted.
func FindUsers(ctx context.Context, resolver resolve.Resolver, object revision.Object, raw []byte) (*Users, error) {
	users := &Users{names: map[string][]string{}}
	use, err := judgeOf(ctx, resolver, object, raw)
	if err != nil {
		return users, err
	}
	for next := ""; ; {
		var page v1.VirtualMachineList
		if err := resolver.Live.List(ctx, &page, client.InNamespace(object.Namespace), pageSize, client.Continue(next)); err != nil {
			return users, fmt.Errorf("listing VMs: %w", err)
		}
		for i := range page.Items {
			if page.Items[i].DeletionTimestamp != nil {
				continue
			}
			if err := users.addUse(ctx, &page.Items[i], use); err != nil {
				return users, err
			}
		}
		if next = page.Continue; next == "" {
			return users, nil
		}
	}
}

// addUse counts a VM.
func (u *Users) addUse(ctx context.Context, vm *v1.VirtualMachine, use judge) error {
	of, err := use(ctx, vm)
	switch {
	case err != nil:
		return err
	case of == Unused:
		return ctx.Err()
	case of == Pinned:
		u.Pinned++
	default:
		u.Unpinned++
	}
	if named := u.names[vm.Namespace]; len(named) < MostNames {
		u.names[vm.Namespace] = append(named, vm.Name)
	}
	return ctx.Err()
}
