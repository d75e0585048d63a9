package hypervisor

import (
	"context"

	"github.com/digitalocean/go-libvirt"
)

// Owners returns the owners of all domains of this machine that Kiln made, active or not, for every cluster and launcher. It leaves out domains without a
// mark, and domains that are undefined while it reads the list.
func (l *Libvirt) Owners(ctx context.Context) (owners []Owner, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		domains, _, err := rpc.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			owner, err := markedOwner(rpc, domain)
			if err = ignoreErrors(err, libvirt.ErrNoDomain); err != nil {
				return err
			}
			if owner != nil {
				owners = append(owners, *owner)
			}
		}
		return nil
	})
	return owners, err
}
