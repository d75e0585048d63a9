// Package subresourcesv1beta1 stands in for the package of kubevirt.io/virt-template-api with this name.
package subresourcesv1beta1

import v1 "kubevirt.io/api/core/v1"

// ProcessOptions has the field that virtctl fills.
type ProcessOptions struct{ Parameters map[string]string }

// ProcessedVirtualMachineTemplate has the fields that virtctl reads.
type ProcessedVirtualMachineTemplate struct {
	VirtualMachine *v1.VirtualMachine
	Message        string
}
