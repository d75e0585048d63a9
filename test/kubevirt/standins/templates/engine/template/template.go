// Package template stands in for the package of kubevirt.io/virt-template-engine with this name.
package template

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/virt-template-api/core"
	"kubevirt.io/virt-template-api/core/v1beta1"
)

// MergeParameters returns an error.
func MergeParameters([]v1beta1.Parameter, map[string]string) ([]v1beta1.Parameter, error) {
	return nil, core.ErrStandIn
}

// ValidateParameterReferences returns an error.
func ValidateParameterReferences(*v1beta1.VirtualMachineTemplate) ([]string, field.ErrorList) {
	return nil, field.ErrorList{field.InternalError(nil, core.ErrStandIn)}
}

// Processor makes no VM.
type Processor struct{}

// GetDefaultProcessor returns the one processor.
func GetDefaultProcessor() Processor { return Processor{} }

// Process returns an error.
func (Processor) Process(*v1beta1.VirtualMachineTemplate) (*v1.VirtualMachine, string, *field.Error) {
	return nil, "", field.InternalError(nil, core.ErrStandIn)
}
