package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices: inputs, sound, video, watchdog, panicDevices, downwardMetrics, autoattachVSOCK.
// QEMU has the model of each device on the architecture.
// QEMU decides which models exist; the names are from KubeVirt's API, which has fewer models than QEMU.

var deviceRules = []guestRule{
	{inputs, []Rule{
		{Name: "devices/input-bus", MendedBy: byPreference},
		{Name: "devices/input-type-given", MendedBy: byCompletion | byPreference},
		{Name: "devices/input-type", MendedBy: byPreference},
	}},
	{sound, []Rule{
		{Name: "devices/sound-arm64", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "devices/sound-model", MendedBy: byPreference},
		{Name: "devices/sound-name", MendedBy: byPreference},
	}},
	{videoDevice, []Rule{
		{Name: "devices/video-gate", MendedBy: byPreference, Until: 8},
		{Name: "devices/video-graphics", MendedBy: byPreference},
		{Name: "devices/video-type-given", KubeVirt: KubeVirtRefusesVMI, MendedBy: byCompletion | byPreference},
		{Name: "devices/video-type", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference},
	}},
	{watchdog, []Rule{
		{Name: "devices/watchdog-action", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "devices/watchdog-given", MendedBy: byCompletion | byPreference},
		{Name: "devices/watchdog-arm64", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference, NamesArchitecture: true},
		{Name: "devices/watchdog-model", KubeVirt: KubeVirtRefusesVMI, MendedBy: byPreference, NamesArchitecture: true},
	}},
	{panicDevices, []Rule{
		{Name: "devices/panic-gate", MendedBy: byPreference, Until: 8},
		{Name: "devices/panic-s390x", MendedBy: byPreference, NamesArchitecture: true},
		{Name: "devices/panic-twice", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "devices/panic-model", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
	}},
	{optionalDevices, []Rule{
		{Name: "devices/vsock-gate", MendedBy: byPreference},
		{Name: "devices/downward-metrics-gate", MendedBy: byPreference},
	}},
}

// inputs is validateInputDevices. KubeVirt refuses an empty type on a VM and fills it on a VMI; here mutate fills it on both, so that
// the error appears only for a spec that was not made explicit.
func inputs(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	for i, input := range spec.Domain.Devices.Inputs {
		at := path.Child("domain", "devices", "inputs").Index(i)
		if input.Bus != "" {
			errs = append(errs, supported(at.Child("bus"), input.Bus, v1.InputBusUSB, v1.InputBusVirtio).WithOrigin("devices/input-bus")...)
		}
		if input.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), "set it to 'tablet'").WithOrigin("devices/input-type-given"))
		} else {
			errs = append(errs, supported(at.Child("type"), input.Type, v1.InputTypeTablet).WithOrigin("devices/input-type")...)
		}
	}
	return errs
}

// sound is validateSoundDevices, and validateSoundDevice of KubeVirt's arm64 rules.
func sound(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	sound := spec.Domain.Devices.Sound
	if sound == nil {
		return nil
	}
	path = path.Child("domain", "devices", "sound")
	if spec.Architecture == arm64 {
		errs = append(errs, field.Forbidden(path, "architecture 'arm64' has no sound device: remove it").WithOrigin("devices/sound-arm64"))
	}
	if sound.Model != "" {
		errs = append(errs, supported(path.Child("model"), sound.Model, "ac97", "ich9").WithOrigin("devices/sound-model")...)
	}
	if sound.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "give the device a name").WithOrigin("devices/sound-name"))
	}
	return errs
}

// They are the lists of validateVideoTypeAmd64, validateVideoTypeArm64 and validateVideoTypeS390x in KubeVirt.
// videoModels by architecture. arm64's virt machine has no VGA; s390x has virtio only.
var videoModels = map[string][]string{
	amd64: {"bochs", "cirrus", "ramfb", "vga", "virtio"},
	arm64: {"ramfb", "virtio"},
	s390x: {"virtio"},
}

// videoDevice is validateVideoConfig too. A type without a graphics device would configure nothing.
func videoDevice(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	video := spec.Domain.Devices.Video
	if video == nil {
		return nil
	}
	path = path.Child("domain", "devices", "video")
	errs = gated(limits, "VideoConfig", path).WithOrigin("devices/video-gate")
	if len(errs) == 0 && !ptr.Deref(spec.Domain.Devices.AutoattachGraphicsDevice, true) {
		errs = append(errs, field.Forbidden(path, "autoattachGraphicsDevice is false: enable it, or remove video").WithOrigin("devices/video-graphics"))
	}
	models, known := videoModels[spec.Architecture]
	switch {
	case video.Type == "":
		errs = append(errs, field.Required(path.Child("type"), "name the model, for example 'virtio'").WithOrigin("devices/video-type-given"))
	case known:
		errs = append(errs, supported(path.Child("type"), video.Type, models...).WithOrigin("devices/video-type")...)
	}
	return errs
}

var watchdogActions = []v1.WatchdogAction{v1.WatchdogActionPoweroff, v1.WatchdogActionReset, v1.WatchdogActionShutdown}

// watchdog allows one model per architecture: a PCI card on amd64, a machine instruction on s390x, none on arm64.
// They are validateWatchdogAmd64, validateWatchdogS390x and, for arm64, validateWatchdog in KubeVirt. KubeVirt accepts any action;
// libvirt knows more actions than the API declares, but not any word.
func watchdog(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) field.ErrorList {
	watchdog := spec.Domain.Devices.Watchdog
	if watchdog == nil {
		return nil
	}
	path = path.Child("domain", "devices", "watchdog")
	if model := watchdog.I6300ESB; model != nil && model.Action != "" && !slices.Contains(watchdogActions, model.Action) {
		return field.ErrorList{field.NotSupported(path.Child("i6300esb", "action"), model.Action, watchdogActions).WithOrigin("devices/watchdog-action")}
	}
	if model := watchdog.Diag288; model != nil && model.Action != "" && !slices.Contains(watchdogActions, model.Action) {
		return field.ErrorList{field.NotSupported(path.Child("diag288", "action"), model.Action, watchdogActions).WithOrigin("devices/watchdog-action")}
	}
	// own is the model that the architecture has, other the one that it lacks.
	own, other, hasOther := "i6300esb", "diag288", watchdog.Diag288 != nil
	switch spec.Architecture {
	case amd64:
		if watchdog.I6300ESB == nil && !hasOther {
			return field.ErrorList{field.Required(path.Child(own), "name the model of the watchdog").WithOrigin("devices/watchdog-given")}
		}
	case s390x:
		own, other, hasOther = other, own, watchdog.I6300ESB != nil
		if watchdog.Diag288 == nil && !hasOther {
			return field.ErrorList{field.Required(path.Child(own), "name the model of the watchdog").WithOrigin("devices/watchdog-given")}
		}
	case arm64:
		return field.ErrorList{field.Forbidden(path, "architecture 'arm64' has no watchdog: remove it").WithOrigin("devices/watchdog-arm64")}
	default:
		return nil
	}
	if hasOther {
		return field.ErrorList{field.Forbidden(path.Child(other),
			fmt.Sprintf("architecture '%s' supports '%s' only", spec.Architecture, own)).WithOrigin("devices/watchdog-model")}
	}
	return nil
}

// panicDevices is validatePanicDevices. KubeVirt accepts isa and hyperv on arm64 and one model twice; libvirt refuses both. Trap: two
// devices without a model are one model twice.
func panicDevices(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	if len(spec.Domain.Devices.PanicDevices) == 0 {
		return nil
	}
	path = path.Child("domain", "devices", "panicDevices")
	if off := gated(limits, "PanicDevices", path).WithOrigin("devices/panic-gate"); len(off) > 0 {
		return off
	}
	if spec.Architecture == s390x {
		errs = append(errs, field.Forbidden(path, "architecture 's390x' always has a panic device: remove panicDevices").WithOrigin("devices/panic-s390x"))
	}
	models := []v1.PanicDeviceModel{v1.Hyperv, v1.Isa, v1.Pvpanic}
	if spec.Architecture == arm64 { // the other models are devices of a PC
		models = models[2:]
	}
	seen := map[v1.PanicDeviceModel]bool{}
	for i, device := range spec.Domain.Devices.PanicDevices {
		model := v1.Isa // what a PC has when none is named
		if spec.Architecture == arm64 {
			model = v1.Pvpanic
		}
		if device.Model != nil {
			model = *device.Model
		}
		if seen[model] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("model"), model).WithOrigin("devices/panic-twice"))
		}
		seen[model] = true
		if device.Model != nil && !slices.Contains(models, *device.Model) {
			errs = append(errs, field.NotSupported(path.Index(i).Child("model"), *device.Model, models).WithOrigin("devices/panic-model"))
		}
	}
	return errs
}

// optionalDevices connect guest and host, so each needs a feature gate that the administrator enables.
// They are validateVSOCK and validateDownwardMetrics.
func optionalDevices(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	if ptr.Deref(spec.Domain.Devices.AutoattachVSOCK, false) {
		errs = append(errs, gated(limits, "VSOCK", path.Child("domain", "devices", "autoattachVSOCK")).WithOrigin("devices/vsock-gate")...)
	}
	if spec.Domain.Devices.DownwardMetrics != nil {
		errs = append(errs, gated(limits, "DownwardMetrics", path.Child("domain", "devices", "downwardMetrics")).WithOrigin("devices/downward-metrics-gate")...)
	}
	return errs
}
