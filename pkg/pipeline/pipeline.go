// Package pipeline composes the stages once, for the webhook, the launcher, the CLI and the tests.
package pipeline

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/instancetype"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Annotations that Kiln owns. README and docs list them.
const (
	// AnnotationPins is on VMs and VMIs: JSON of Pins.
	AnnotationPins = "kilnvm.io/pins"
	// AnnotationIdentity is the seed of firmware UUID, serial and MACs.
	AnnotationIdentity = "kilnvm.io/identity"
	// AnnotationFrontend is on VMIs: the frozen frontend (abi.Record, JSON), written by the launcher before the first start.
	AnnotationFrontend = "kilnvm.io/frontend"
)

// Pins name the ControllerRevisions that a guest was built from.
type Pins struct {
	Instancetype string `json:"instancetype,omitempty"`
	Preference   string `json:"preference,omitempty"`
}

// Input is what stage 1 needs besides the object, already fetched.
type Input struct {
	Set     instancetype.Set
	Presets []v1.VirtualMachineInstancePreset
	Cluster config.Cluster
}

// Verdict is the judgement on an object.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
}

// Allowed tells whether there are no errors.
func (v Verdict) Allowed() bool { return len(v.Errors) == 0 }

// ExplicitVMI runs the whole of stage 1 on a copy of a VMI. It does not judge: see JudgeVMI.
func ExplicitVMI(vmi *v1.VirtualMachineInstance, in Input) (*v1.VirtualMachineInstance, Verdict) {
	return nil, Verdict{}
}

// JudgeVMI judges an explicit VMI.
func JudgeVMI(vmi *v1.VirtualMachineInstance, in Input) Verdict { return Verdict{} }

// ExplicitVM makes the guest that a VM would boot explicit and judges the VM and it together. old is nil on create.
// Paths are those of the VM.
func ExplicitVM(vm, old *v1.VirtualMachine, in Input) (*v1.VirtualMachineInstance, Verdict) {
	return nil, Verdict{}
}

// Instance is the sparse VMI of a VM: template, name, namespace, pins, identity. The caller sets owner and generated names.
func Instance(vm *v1.VirtualMachine) *v1.VirtualMachineInstance { return nil }

// Identify fills firmware UUID, serial and MACs that are unset, derived from the seed. The same seed gives the same values.
func Identify(vmi *v1.VirtualMachineInstance, seed string) {}

// Patch is the RFC 6902 patch that turns raw into what after says, where before is the typed form of raw. Empty when nothing changed.
func Patch(raw []byte, before, after any) ([]byte, error) { return nil, nil }

// Machine is what stages 2 and 3 need.
type Machine struct {
	// VMI must be explicit. A VMI without identity gets one from its UID.
	VMI      *v1.VirtualMachineInstance
	Defaults config.FrontendDefaults
	Frozen   *abi.Record
	Host     backend.Capabilities
	Bindings backend.Bindings
}

// Rendered is the result of stages 2 and 3.
type Rendered struct {
	Frontend  *libvirtxml.Domain
	Record    abi.Record
	Documents backend.Documents
}

// Render runs stages 2 and 3. Errors name the fields of the VMI that are not explicit, cannot be rendered, or have no binding.
func Render(m Machine) (Rendered, field.ErrorList) { return Rendered{}, nil }
