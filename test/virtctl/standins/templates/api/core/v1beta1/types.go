// Package v1beta1 stands in for that of kubevirt.io/virt-template-api.
package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VirtualMachineTemplate is an object without a spec: nothing reads one.
type VirtualMachineTemplate struct{ metav1.PartialObjectMetadata }
