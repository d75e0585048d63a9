package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.gpus, hostDevices.

func hostDevices(guest *v1.VirtualMachineInstanceSpec, limits config.Limits, spec *field.Path) (errs field.ErrorList) {
	at := spec.Child("domain", "devices")
	if len(guest.Domain.Devices.HostDevices) > 0 && !limits.Gates.Enabled("HostDevices") {
		errs = append(errs, field.Forbidden(at.Child("hostDevices"), "the cluster's feature gate 'HostDevices' is off"))
	}
	for i, device := range guest.Domain.Devices.HostDevices {
		errs = append(errs, deviceSource(device.DeviceName, device.ClaimRequest, at.Child("hostDevices").Index(i))...)
	}
	for i, gpu := range guest.Domain.Devices.GPUs {
		errs = append(errs, deviceSource(gpu.DeviceName, gpu.ClaimRequest, at.Child("gpus").Index(i))...)
	}
	return errs
}

func deviceSource(name string, claim *v1.ClaimRequest, at *field.Path) field.ErrorList {
	switch {
	case name == "" && claim == nil:
		return field.ErrorList{field.Required(at.Child("deviceName"), "name a device of a device plugin, or a resource claim")}
	case name != "" && claim != nil:
		return field.ErrorList{field.Forbidden(at.Child("deviceName"), "may not be set together with a resource claim")}
	}
	return nil
}
