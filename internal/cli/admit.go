package cli

import (
	"github.com/kilnvm/kiln/internal/review"
	"github.com/kilnvm/kiln/pkg/patch"
	v1 "kubevirt.io/api/core/v1"
)

// admitted is the JSON of a VM as a cluster would store it: with the patch that the webhook would answer.
func admitted(vm *v1.VirtualMachine, reviewed review.VM, raw []byte) ([]byte, error) {
	if vm.DeletionTimestamp != nil { // the webhook leaves it alone
		return raw, nil
	}
	stored, _ := reviewed.Stored()
	diff, err := patch.Write(raw, vm, stored)
	if err != nil {
		return nil, err
	}
	return apply(diff, raw)
}
