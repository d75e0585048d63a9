package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.inputs, watchdog, sound, video, panicDevices. What a machine has differs between architectures.

func inputs(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	for i, input := range guest.Domain.Devices.Inputs {
		at := spec.Child("domain", "devices", "inputs").Index(i)
		errs = append(errs, supported(input.Bus, []v1.InputBus{v1.InputBusUSB, v1.InputBusVirtio}, at.Child("bus"))...)
		errs = append(errs, supported(input.Type, []v1.InputType{v1.InputTypeTablet}, at.Child("type"))...)
	}
	return errs
}

// videos are the models that the machines of an architecture have.
var videos = map[string][]string{
	"amd64": {"bochs", "cirrus", "ramfb", "vga", "virtio"},
	"arm64": {"ramfb", "virtio"},
	"s390x": {"virtio"},
}

func watchdog(guest *v1.VirtualMachineInstanceSpec, _ config.Limits, spec *field.Path) (errs field.ErrorList) {
	devices, at := guest.Domain.Devices, spec.Child("domain", "devices")
	if dog := devices.Watchdog; dog != nil {
		switch guest.Architecture {
		case "amd64":
			if dog.Diag288 != nil {
				errs = append(errs, field.Forbidden(at.Child("watchdog", "diag288"), "architecture 'amd64' has the watchdog 'i6300esb'"))
			}
		case "s390x":
			if dog.I6300ESB != nil {
				errs = append(errs, field.Forbidden(at.Child("watchdog", "i6300esb"), "architecture 's390x' has the watchdog 'diag288'"))
			}
		case "arm64":
			errs = append(errs, field.Forbidden(at.Child("watchdog"), "architecture 'arm64' has none"))
		}
	}
	if sound := devices.Sound; sound != nil {
		if sound.Name == "" {
			errs = append(errs, field.Required(at.Child("sound", "name"), ""))
		}
		if sound.Model != "" {
			errs = append(errs, supported(sound.Model, []string{"ac97", "ich9"}, at.Child("sound", "model"))...)
		}
		if guest.Architecture == "arm64" {
			errs = append(errs, field.Forbidden(at.Child("sound"), "architecture 'arm64' has none"))
		}
	}
	if video := devices.Video; video != nil {
		if video.Type != "" {
			errs = append(errs, supported(video.Type, videos[guest.Architecture], at.Child("video", "type"))...)
		}
		if devices.AutoattachGraphicsDevice != nil && !*devices.AutoattachGraphicsDevice {
			errs = append(errs, field.Forbidden(at.Child("video"), "may not be set when `autoattachGraphicsDevice` is false"))
		}
	}
	if len(devices.PanicDevices) > 0 && guest.Architecture == "s390x" {
		errs = append(errs, field.Forbidden(at.Child("panicDevices"), "architecture 's390x' has its own"))
	}
	return errs
}
