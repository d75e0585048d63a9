package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/utils/cpuset"
)

// Hypervisor is what a node needs of its machine's libvirt. hypervisor.Libvirt implements it; tests of phases use a fake.
type Hypervisor interface {
	guest.Hypervisor
	// Hardware reads what libvirt runs of a domain, and WatchHardware calls observe when that of any may have changed, until the context ends.
	Hardware(ctx context.Context, owner hypervisor.Owner) (hypervisor.Hardware, error)
	WatchHardware(ctx context.Context, observe func())
	// Remove removes the owner's domain with its side documents. The error is as that of the others.
	Remove(ctx context.Context, owner hypervisor.Owner) error
	// Owners returns the owners of all domains that Kiln made on this machine.
	Owners(ctx context.Context) ([]hypervisor.Owner, error)
	// Pinned returns the CPUs that active domains other than one are pinned to.
	Pinned(ctx context.Context, except string) (cpuset.CPUSet, error)
}
