package instancetype

import (
	"github.com/kilnvm/kiln/pkg/internal/filled"
	v1 "kubevirt.io/api/core/v1"
)

// Fields of a preference: devices.preferredAutoattach*, preferredDisableHotplug, preferredUseVirtioTransitional,
// preferredBlockMultiQueue, preferredNetworkInterfaceMultiQueue, preferredSoundModel, preferredInputBus, preferredInputType,
// preferredRng, preferredTPM, preferredPanicDeviceModel, preferredVideoType.

// Attach fills preferredAutoattachPodInterface and preferredAutoattachInputDevice (ApplyAutoAttachPreferences). It runs before mutate.Attach, which adds the
// two devices. ApplyPreference, which fills their models, runs after mutate.Attach. KubeVirt's VM controller has the same order.
func Attach(set Set, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	if set.Preference == nil || set.Preference.Spec.Devices == nil {
		return
	}
	want, devices := set.Preference.Spec.Devices, &vmi.Spec.Domain.Devices
	fillPointer(log, &devices.AutoattachPodInterface, want.PreferredAutoattachPodInterface)
	fillPointer(log, &devices.AutoattachInputDevice, want.PreferredAutoattachInputDevice)
}

// preferDevices is ApplyDevicePreferences, with applyInputPreferences and applyPanicDevicePreferences. It fills the models of the user's devices, and adds only
// rng, tpm, video and the panic device.
func preferDevices(p *Preference, vmi *v1.VirtualMachineInstance, log *filled.Log) {
	want, devices := p.Spec.Devices, &vmi.Spec.Domain.Devices
	if want == nil {
		return
	}
	fillPointer(log, &devices.AutoattachGraphicsDevice, want.PreferredAutoattachGraphicsDevice)
	fillPointer(log, &devices.AutoattachMemBalloon, want.PreferredAutoattachMemBalloon)
	fillPointer(log, &devices.AutoattachPodInterface, want.PreferredAutoattachPodInterface)
	fillPointer(log, &devices.AutoattachSerialConsole, want.PreferredAutoattachSerialConsole)
	fillPointer(log, &devices.AutoattachInputDevice, want.PreferredAutoattachInputDevice)
	fillPointer(log, &devices.UseVirtioTransitional, want.PreferredUseVirtioTransitional)
	fillPointer(log, &devices.BlockMultiQueue, want.PreferredBlockMultiQueue)
	fillPointer(log, &devices.NetworkInterfaceMultiQueue, want.PreferredNetworkInterfaceMultiQueue)
	// disableHotplug has no pointer: false means unset. Trap: KubeVirt writes a preferred false over the user's true.
	if want.PreferredDisableHotplug != nil && *want.PreferredDisableHotplug {
		putValue(log, &devices.DisableHotplug, true)
	}
	if devices.Sound != nil {
		fillText(log, &devices.Sound.Model, want.PreferredSoundModel)
	}
	fillCopy(log, &devices.Rng, want.PreferredRng)
	fillCopy(log, &devices.TPM, want.PreferredTPM)
	for i := range devices.Inputs {
		fillText(log, &devices.Inputs[i].Bus, want.PreferredInputBus)
		fillText(log, &devices.Inputs[i].Type, want.PreferredInputType)
	}
	preferVideo(want.PreferredVideoType, devices, log)
	preferPanic(want.PreferredPanicDeviceModel, devices, log)
}

// preferVideo fills devices.video.type, and creates the device, as in KubeVirt.
func preferVideo(model *string, devices *v1.Devices, log *filled.Log) {
	if model == nil {
		return
	}
	if devices.Video == nil {
		devices.Video = &v1.VideoDevice{}
		log.Note(&devices.Video, &v1.VideoDevice{})
	}
	fillText(log, &devices.Video.Type, *model)
}

// preferPanic adds a panic device to a VMI without one, and gives panic devices without a model the preferred model.
func preferPanic(model *v1.PanicDeviceModel, devices *v1.Devices, log *filled.Log) {
	if model == nil {
		return
	}
	if len(devices.PanicDevices) == 0 {
		devices.PanicDevices = []v1.PanicDevice{{}}
	}
	for i := range devices.PanicDevices {
		fillPointer(log, &devices.PanicDevices[i].Model, model)
	}
}
