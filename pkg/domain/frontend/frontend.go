// Package frontend renders all that a guest sees, as a partial libvirt domain with every address assigned.
package frontend

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Input is everything that stage 2 depends on.
type Input struct {
	// VMI is explicit and has its identity (firmware UUID, serial, MACs).
	VMI      *v1.VirtualMachineInstance
	Defaults config.FrontendDefaults
	// Frozen is the record of an earlier boot, nil at the first.
	Frozen *abi.Record
}

// Render returns the frontend, or every field that is not explicit (Required) or cannot be rendered (NotSupported, Invalid).
func Render(in Input) (*libvirtxml.Domain, field.ErrorList) { return nil, nil }
