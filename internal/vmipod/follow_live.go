package vmipod

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// followLive writes what a running guest has not got yet of what its VMI asks for: KubeVirt's conditions HotVCPUChange and HotMemoryChange, and a condition of
// Kiln's for links, media and devices. They go when libvirt reports that it is done, and when the guest ends.
func (s seen) followLive(vmi *v1.VirtualMachineInstance, o *outcome) {
	if o.growthUnknown {
		return
	}
	var cpu, memory, hardware *condition.Cause
	if running, guest := s.running(), s.guestPod(); running != nil && guest.Spec.Live != nil {
		asked := func() *condition.Cause {
			return &condition.Cause{Reason: v1alpha1.ReasonGuestAsked, Message: plain(running.Hindrance)}
		}
		if running.VCPUs != guest.Spec.Live.VCPUs {
			cpu = asked()
		}
		if running.MemoryKiB != guest.Spec.Live.MemoryKiB {
			memory = asked()
		}
		rest := guest.Spec.Live.LiveHardware
		rest.VCPUs, rest.MemoryKiB = running.VCPUs, running.MemoryKiB
		if open := render.LiveChanges(running.LiveHardware, rest); open != "" {
			hardware = asked()
			hardware.Message = condition.Message(joined("waits for: "+plain(open), hardware.Message))
		}
	}
	if o.growth != nil && o.growth.cpu {
		cpu = &o.growth.why
	}
	if o.growth != nil && o.growth.memory {
		memory = &o.growth.why
	}
	setPending(vmi, v1.VirtualMachineInstanceVCPUChange, cpu)
	setPending(vmi, v1.VirtualMachineInstanceMemoryChange, memory)
	setPending(vmi, v1alpha1.ConditionHardwareChange, hardware)
}

func joined(text, more string) string {
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

// setPending sets a condition while there is a cause, and clears it else.
func setPending(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType, why *condition.Cause) {
	if why == nil {
		condition.Clear(vmi, kind)
		return
	}
	condition.Set(vmi, v1.VirtualMachineInstanceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: why.Reason,
		Message: condition.Message(why.Message)})
}
