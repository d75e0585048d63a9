package validate

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: domain.devices.gpus, domain.devices.hostDevices. Claims of dynamic resource allocation are in hostdevices_claims.go.
// A device comes either from a device plugin (deviceName) or from a claim (claimName and requestName).
// KubeVirt has these rules in validateDRADevices, validateHostDevicesWithPassthroughEnabled and validateMDEVRamFB.

var hostdeviceRules = []guestRule{
	{gpus, append([]Rule{
		{Name: "hostdevices/gpus-mixed", MendedBy: byInstancetype, Since: 9},
		{Name: "hostdevices/gpu-ramfb", MendedBy: byInstancetype | byPreference},
	}, sourceRules...)},
	{hostDevices, append([]Rule{
		{Name: "hostdevices/gate", MendedBy: byInstancetype},
	}, sourceRules...)},
	{passthrough, []Rule{
		{Name: "hostdevices/s390x", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype, NamesArchitecture: true},
	}},
}

// sourceRules apply to both lists. deviceSources judges by them.
var sourceRules = []Rule{
	{Name: "hostdevices/source", MendedBy: byInstancetype},
	{Name: "hostdevices/sources", MendedBy: byInstancetype},
	{Name: "hostdevices/device-name", KubeVirt: KubeVirtRefusesSome, MendedBy: byInstancetype},
	{Name: "hostdevices/claim-gate", MendedBy: byInstancetype},
	{Name: "hostdevices/request-claim", MendedBy: byInstancetype},
	{Name: "hostdevices/request-name", MendedBy: byInstancetype},
	{Name: "hostdevices/request-form", KubeVirt: KubeVirtAdmits, MendedBy: byInstancetype},
}

// passed is one device of either list: the types differ, the fields do not.
type passed struct {
	name, deviceName string
	claim            *v1.ClaimRequest
	at               *field.Path
}

func gpuList(spec *v1.VirtualMachineInstanceSpec, path *field.Path) (list []passed) {
	for i, d := range spec.Domain.Devices.GPUs {
		list = append(list, passed{d.Name, d.DeviceName, d.ClaimRequest, path.Child("domain", "devices", "gpus").Index(i)})
	}
	return list
}

func hostDeviceList(spec *v1.VirtualMachineInstanceSpec, path *field.Path) (list []passed) {
	for i, d := range spec.Domain.Devices.HostDevices {
		list = append(list, passed{d.Name, d.DeviceName, d.ClaimRequest, path.Child("domain", "devices", "hostDevices").Index(i)})
	}
	return list
}

// passthrough refuses host devices on s390x, for which Kiln does not render channel devices.
func passthrough(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.Architecture != s390x {
		return nil
	}
	devices := append(gpuList(spec, path), hostDeviceList(spec, path)...)
	for i, nic := range spec.Domain.Devices.Interfaces {
		if nic.SRIOV != nil {
			devices = append(devices, passed{at: path.Child("domain", "devices", "interfaces").Index(i)})
		}
	}
	for _, d := range devices {
		errs = append(errs, field.Forbidden(d.at, "host devices are not rendered for architecture 's390x' yet").WithOrigin("hostdevices/s390x"))
	}
	return errs
}

// gpus refuses a mixture of both sources, as KubeVirt does for GPUs and not for hostDevices. KubeVirt reports nothing else of such a
// list; here each device is judged all the same.
func gpus(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) field.ErrorList {
	devices := gpuList(spec, path)
	errs := deviceSources(devices, limits, "GPUsWithDRA")
	plugin, claimed := -1, -1
	for i, d := range devices {
		if d.claim != nil {
			claimed = i
		} else {
			plugin = i
		}
	}
	if plugin >= 0 && claimed >= 0 && devices[plugin].deviceName != "" && devices[claimed].deviceName == "" {
		errs = append(errs, field.Invalid(devices[max(plugin, claimed)].at, "",
			fmt.Sprintf("all GPUs must use deviceName, or all must use claimName: gpus[%d] uses the other", min(plugin, claimed))).WithOrigin("hostdevices/gpus-mixed"))
	}
	return append(errs, ramFB(spec, path)...)
}

// ramFB is the boot display of a vGPU. QEMU supports one per domain.
// In KubeVirt it is validateMDEVRamFB.
func ramFB(spec *v1.VirtualMachineInstanceSpec, path *field.Path) (errs field.ErrorList) {
	first := -1
	for i, gpu := range spec.Domain.Devices.GPUs {
		if !vm.BootDisplay(gpu.VirtualGPUOptions) {
			continue
		}
		if first >= 0 {
			at := path.Child("domain", "devices", "gpus").Index(i).Child("virtualGPUOptions", "display")
			errs = append(errs, field.Invalid(at, "",
				fmt.Sprintf("a VMI may have one boot display, and gpus[%d] is it: set ramFB.enabled to false", first)).WithOrigin("hostdevices/gpu-ramfb"))
			continue
		}
		first = i
	}
	return errs
}

// hostDevices needs a gate, which GPUs do not. KubeVirt also refuses an empty list without the gate. KubeVirt 1.7 judges the sources of GPUs only.
func hostDevices(spec *v1.VirtualMachineInstanceSpec, limits config.Limits, path *field.Path) (errs field.ErrorList) {
	devices := hostDeviceList(spec, path)
	if len(devices) > 0 {
		errs = gated(limits, "HostDevices", path.Child("domain", "devices", "hostDevices")).WithOrigin("hostdevices/gate")
	}
	if !judgesHostDevices(limits) {
		devices = slices.DeleteFunc(devices, func(d passed) bool { return d.deviceName == "" || d.claim != nil })
	}
	return append(errs, deviceSources(devices, limits, "HostDevicesWithDRA")...)
}

// judgesHostDevices reports whether KubeVirt has rules for the sources of hostDevices.
func judgesHostDevices(limits config.Limits) bool { return limits.Version.Nearest() >= 8 }
