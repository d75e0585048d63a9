package vmistatus

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/condition"
	"github.com/kilnvm/kiln/pkg/render"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// PendingHotplug are the resources that the VMI asks for and the pod of its running guest lacks.
type PendingHotplug struct {
	Cause       condition.Cause
	CPU, Memory bool
}

// setPendingChanges writes which changes of the VMI's spec its running guest does not have yet: KubeVirt's conditions HotVCPUChange and HotMemoryChange, and
// a condition of Kiln for links, media and devices. The conditions go when libvirt reports the change as done, and when the guest ends.
func (r Report) setPendingChanges(vmi *v1.VirtualMachineInstance) {
	if r.HotplugUnknown {
		return
	}
	var cpu, memory, hardware *condition.Cause
	if running, guest := r.RunningHardware(), r.GuestPodOfPod(); running != nil && guest.Spec.Live != nil {
		guestAsked := func() *condition.Cause {
			return &condition.Cause{Reason: v1alpha1.ReasonGuestAsked, Message: condition.OneLine(running.Hindrance)}
		}
		if running.VCPUs != guest.Spec.Live.VCPUs {
			cpu = guestAsked()
		}
		if running.MemoryKiB != guest.Spec.Live.MemoryKiB {
			memory = guestAsked()
		}
		rest := guest.Spec.Live.LiveHardware
		rest.VCPUs, rest.MemoryKiB = running.VCPUs, running.MemoryKiB
		if open := render.LiveChanges(running.LiveHardware, rest); open != "" {
			hardware = guestAsked()
			hardware.Message = condition.Message(withDetail("waits for: "+condition.OneLine(open), hardware.Message))
		}
	}
	if r.PendingHotplug != nil && r.PendingHotplug.CPU {
		cpu = &r.PendingHotplug.Cause
	}
	if r.PendingHotplug != nil && r.PendingHotplug.Memory {
		memory = &r.PendingHotplug.Cause
	}
	setPending(vmi, v1.VirtualMachineInstanceVCPUChange, cpu)
	setPending(vmi, v1.VirtualMachineInstanceMemoryChange, memory)
	setPending(vmi, v1alpha1.ConditionHardwareChange, hardware)
}

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + " (" + detail + ")"
}

// setPending sets a condition to True if there is a cause, and removes it otherwise.
func setPending(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType, cause *condition.Cause) {
	if cause == nil {
		condition.Clear(vmi, kind)
		return
	}
	condition.Set(vmi, v1.VirtualMachineInstanceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: cause.Reason,
		Message: condition.Message(cause.Message)})
}
