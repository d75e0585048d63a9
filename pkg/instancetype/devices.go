package instancetype

import v1 "kubevirt.io/api/core/v1"

// Fields of a preference: devices.preferredAutoattach*, preferredDisableHotplug, preferredUseVirtioTransitional,
// preferredBlockMultiQueue, preferredNetworkInterfaceMultiQueue, preferredSoundModel, preferredInputBus, preferredInputType,
// preferredRng, preferredTPM, preferredPanicDeviceModel, preferredVideoType.

// Attach fills what a preference says of devices that a guest has without naming them: whether it has them comes before what
// they are like.
func Attach(set Set, vmi *v1.VirtualMachineInstance) {
	if set.Preference == nil || set.Preference.Spec.Devices == nil {
		return
	}
	want, devices := set.Preference.Spec.Devices, &vmi.Spec.Domain.Devices
	fill(&devices.AutoattachPodInterface, want.PreferredAutoattachPodInterface)
	fill(&devices.AutoattachInputDevice, want.PreferredAutoattachInputDevice)
}

func preferDevices(p *Preference, vmi *v1.VirtualMachineInstance) {
	want, devices := p.Spec.Devices, &vmi.Spec.Domain.Devices
	if want == nil {
		return
	}
	fill(&devices.AutoattachGraphicsDevice, want.PreferredAutoattachGraphicsDevice)
	fill(&devices.AutoattachMemBalloon, want.PreferredAutoattachMemBalloon)
	fill(&devices.AutoattachPodInterface, want.PreferredAutoattachPodInterface)
	fill(&devices.AutoattachSerialConsole, want.PreferredAutoattachSerialConsole)
	fill(&devices.AutoattachInputDevice, want.PreferredAutoattachInputDevice)
	fill(&devices.UseVirtioTransitional, want.PreferredUseVirtioTransitional)
	fill(&devices.BlockMultiQueue, want.PreferredBlockMultiQueue)
	fill(&devices.NetworkInterfaceMultiQueue, want.PreferredNetworkInterfaceMultiQueue)
	// The API cannot tell a user's false from silence; true is the user's word either way.
	if want.PreferredDisableHotplug != nil && *want.PreferredDisableHotplug {
		devices.DisableHotplug = true
	}
	if devices.Sound != nil {
		fillText(&devices.Sound.Model, want.PreferredSoundModel)
	}
	if devices.Rng == nil {
		devices.Rng = want.PreferredRng.DeepCopy()
	}
	if devices.TPM == nil {
		devices.TPM = want.PreferredTPM.DeepCopy()
	}
	for i := range devices.Inputs {
		fillText(&devices.Inputs[i].Bus, want.PreferredInputBus)
		fillText(&devices.Inputs[i].Type, want.PreferredInputType)
	}
	preferVideo(want.PreferredVideoType, devices)
	preferPanic(want.PreferredPanicDeviceModel, devices)
}

func preferVideo(model *string, devices *v1.Devices) {
	if model == nil {
		return
	}
	if devices.Video == nil {
		devices.Video = &v1.VideoDevice{}
	}
	fillText(&devices.Video.Type, *model)
}

// preferPanic adds a panic device where there is none, and gives those without a model the preferred one.
func preferPanic(model *v1.PanicDeviceModel, devices *v1.Devices) {
	if model == nil {
		return
	}
	if len(devices.PanicDevices) == 0 {
		devices.PanicDevices = []v1.PanicDevice{{}}
	}
	for i := range devices.PanicDevices {
		fill(&devices.PanicDevices[i].Model, model)
	}
}
