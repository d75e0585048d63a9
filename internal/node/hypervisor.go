package node

import (
	"context"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guest"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"k8s.io/utils/cpuset"
)

// Hypervisor runs the domains of a machine by its libvirt. hypervisor.Libvirt implements it; tests use a fake.
type Hypervisor interface {
	guest.Hypervisor
	// Hardware returns the running hardware of a domain. WatchHardware calls observe when the hardware of any domain may have changed, until the context ends.
	Hardware(ctx context.Context, owner hypervisor.Owner) (hypervisor.Hardware, error)
	WatchHardware(ctx context.Context, observe func())
	// RunningCPU returns the CPU that libvirt runs; nil if libvirt has no model for it, or the domain is not active.
	RunningCPU(ctx context.Context, owner hypervisor.Owner) (*v1alpha1.ReportedCPU, error)
	// Remove removes the owner's domain with its side documents. If the domain of that name has another owner, the error is a *hypervisor.TakenError.
	Remove(ctx context.Context, owner hypervisor.Owner) error
	// Owners returns the owners of all domains that Kiln defined on this machine.
	Owners(ctx context.Context) ([]hypervisor.Owner, error)
	// Pinned returns the CPUs to which active domains other than except are pinned.
	Pinned(ctx context.Context, except string) (cpuset.CPUSet, error)
}
