package admission

import (
	"context"

	"github.com/kilnvm/kiln/internal/inuse"
	"github.com/kilnvm/kiln/internal/resolve"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// mostNamespaces is the number of namespaces for which the API server is asked whether the author of a request may list their VMs.
const mostNamespaces = 5

// visibleNames returns the first VMs, as NAMESPACE/NAME, that an account may list. It returns less if the time is over, or if the API server does not answer.
func (d deletions) visibleNames(ctx context.Context, user authenticationv1.UserInfo, users *inuse.Users) (names []string) {
	namespaces := users.Namespaces()
	everywhere := len(namespaces) > 1 && d.maySeeVMs(ctx, user, "")
	for i, namespace := range namespaces {
		if len(names) >= inuse.MostNames || !everywhere && i >= mostNamespaces {
			break
		}
		if !everywhere && !d.maySeeVMs(ctx, user, namespace) {
			continue
		}
		for _, name := range users.NamesIn(namespace) {
			if len(names) < inuse.MostNames {
				names = append(names, namespace+"/"+name)
			}
		}
	}
	return names
}

// maySeeVMs reports whether an account may list the VMs of a namespace, or of all namespaces if it is empty.
func (d deletions) maySeeVMs(ctx context.Context, user authenticationv1.UserInfo, namespace string) bool {
	if d.server.MayRead == nil || ctx.Err() != nil {
		return false
	}
	allowed, err := d.server.MayRead(ctx, user, resolve.VMsOf(namespace))
	return err == nil && allowed
}
