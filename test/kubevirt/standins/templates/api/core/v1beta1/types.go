// Package v1beta1 stands in for the package of kubevirt.io/virt-template-api with this name.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/virt-template-api/core"
)

// GroupVersion is the group and version of templates.
var GroupVersion = schema.GroupVersion{Group: core.GroupName, Version: "v1beta1"}

// ConditionReady is the type of the condition that virt-controller reads.
const ConditionReady = "Ready"

// VirtualMachineTemplate has the fields that KubeVirt's programs use.
type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   VirtualMachineTemplateSpec
	Status VirtualMachineTemplateStatus
}

// VirtualMachineTemplateStatus has the field that virt-controller reads.
type VirtualMachineTemplateStatus struct{ Conditions []metav1.Condition }

// DeepCopy is a shallow copy: there is nothing in a template that cannot be decoded.
func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	clone := *t
	return &clone
}

// MarshalJSON returns an error: what this type would print is no template.
func (*VirtualMachineTemplate) MarshalJSON() ([]byte, error) { return nil, core.ErrStandIn }

// UnmarshalJSON returns an error, for the same reason.
func (*VirtualMachineTemplate) UnmarshalJSON([]byte) error { return core.ErrStandIn }

// DeepCopyObject makes it an object for KubeVirt's informers. No informer ever holds one, because none can be decoded.
func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object {
	return &VirtualMachineTemplate{TypeMeta: t.TypeMeta, ObjectMeta: *t.ObjectMeta.DeepCopy()}
}

// VirtualMachineTemplateSpec has the fields that virtctl fills.
type VirtualMachineTemplateSpec struct {
	Message        string
	Parameters     []Parameter
	VirtualMachine *runtime.RawExtension
}

// Parameter has the fields that virtctl fills.
type Parameter struct {
	Name, DisplayName, Description string
	Value, Generate, From          string
	Required                       bool
}

// VirtualMachineTemplateRequest has the fields that virtctl fills.
type VirtualMachineTemplateRequest struct {
	metav1.ObjectMeta
	Spec VirtualMachineTemplateRequestSpec
}

// VirtualMachineTemplateRequestSpec has the fields that virtctl fills.
type VirtualMachineTemplateRequestSpec struct {
	VirtualMachineRef VirtualMachineReference
	TemplateName      string
}

// VirtualMachineReference names a VM.
type VirtualMachineReference struct{ Namespace, Name string }
