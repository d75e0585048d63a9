package mutate

import (
	"cmp"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.inputs, domain.devices.watchdog.

// defaultInput is AutoAttachInputDevice of KubeVirt's VM controller: autoattachInputDevice without inputs adds one. KubeVirt does this only for VMIs of VMs,
// Kiln for every VMI.
func defaultInput(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	devices := &vmi.Spec.Domain.Devices
	if attach := devices.AutoattachInputDevice; attach != nil && *attach && len(devices.Inputs) == 0 {
		devices.Inputs = []v1.Input{{Name: "default-0"}} // KubeVirt's name: the device keeps its alias when a VM moves from there
	}
}

// inputDevices is setDefaults_Input: bus usb, or virtio on s390x, which has no USB; type tablet, the only one that the API knows.
func inputDevices(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	for i := range vmi.Spec.Domain.Devices.Inputs {
		input := &vmi.Spec.Domain.Devices.Inputs[i]
		if input.Bus == "" {
			input.Bus = v1.InputBusUSB
			if vmi.Spec.Architecture == "s390x" {
				input.Bus = v1.InputBusVirtio
			}
		}
		if input.Type == "" {
			input.Type = v1.InputTypeTablet
		}
	}
}

// watchdogModel is SetAmd64Watchdog and SetS390xWatchdog: a watchdog without a model gets the model of the architecture, and action reset.
// Trap: KubeVirt adds its model beside a model of another architecture. Kiln does not change such a watchdog, and no watchdog on arm64: validate refuses both.
func watchdogModel(vmi *v1.VirtualMachineInstance, _ config.Defaults) {
	dog := vmi.Spec.Domain.Devices.Watchdog
	if dog == nil {
		return
	}
	none := dog.I6300ESB == nil && dog.Diag288 == nil
	switch vmi.Spec.Architecture {
	case "arm64":
	case "s390x":
		if none {
			dog.Diag288 = &v1.Diag288Watchdog{}
		}
		if dog.Diag288 != nil {
			dog.Diag288.Action = cmp.Or(dog.Diag288.Action, v1.WatchdogActionReset)
		}
	default:
		if none {
			dog.I6300ESB = &v1.I6300ESBWatchdog{}
		}
		if dog.I6300ESB != nil {
			dog.I6300ESB.Action = cmp.Or(dog.I6300ESB.Action, v1.WatchdogActionReset)
		}
	}
}
