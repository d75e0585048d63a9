package review

import (
	"context"

	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
)

// recordOfVM returns a function that reads the hardware record of a VM, for policies that read it. The record is hostile input: a restore may have brought it.
func (r Reviewer) recordOfVM(ctx context.Context, vm *v1.VirtualMachine) func() (*record.Record, error) {
	return func() (*record.Record, error) { return r.Resolver.Hardware(ctx, vm) }
}

// recordOfVMI is recordOfVM for a VMI that is stored.
func (r Reviewer) recordOfVMI(ctx context.Context, vmi *v1.VirtualMachineInstance) func() (*record.Record, error) {
	return func() (*record.Record, error) { return r.Resolver.HardwareOfVMI(ctx, vmi) }
}
