package hypervisor

import (
	"context"

	"github.com/digitalocean/go-libvirt"
)

// Owners returns the owners of all domains of this machine that Kiln made, active or not, of every cluster and launcher. Domains without a mark, and
// those that are undefined while the list is read, are left out.
func (l *Libvirt) Owners(ctx context.Context) (owners []Owner, err error) {
	err = l.query(ctx, func(rpc *libvirt.Libvirt) error {
		domains, _, err := rpc.ConnectListAllDomains(1, 0)
		if err != nil {
			return err
		}
		for _, domain := range domains {
			owner, err := marked(rpc, domain)
			if err = tolerate(err, libvirt.ErrNoDomain); err != nil {
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
