package node

import (
	"context"

	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"k8s.io/utils/cpuset"
)

// Hypervisor is what a node needs of its machine's libvirt. hypervisor.Libvirt implements it; tests of phases use a fake.
type Hypervisor interface {
	// Capabilities reads the facts of the machine.
	Capabilities(ctx context.Context, node string, kvm hypervisor.KVM) (backend.Capabilities, error)
	// Watch calls observe for each change of a domain's state until the context ends.
	Watch(ctx context.Context, observe func(hypervisor.Event))
	// State, Start, Shutdown, Destroy and Remove act on the owner's domain. If the domain of that name has another owner, the
	// error is a *hypervisor.TakenError.
	State(ctx context.Context, owner hypervisor.Owner) (hypervisor.Status, error)
	Start(ctx context.Context, guest hypervisor.Guest) error
	Shutdown(ctx context.Context, owner hypervisor.Owner) error
	Destroy(ctx context.Context, owner hypervisor.Owner) error
	Remove(ctx context.Context, owner hypervisor.Owner) error
	// Owners returns the owners of all domains that Kiln made on this machine.
	Owners(ctx context.Context) ([]hypervisor.Owner, error)
	// Pinned returns the CPUs that active domains other than one are pinned to.
	Pinned(ctx context.Context, except string) (cpuset.CPUSet, error)
}
