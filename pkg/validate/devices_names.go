package validate

import (
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: the names of domain.devices: gpus, hostDevices, filesystems, inputs, watchdog, sound. Disks and interfaces have their own rules.
// The name identifies a device: libvirt's alias and the record of its address derive from it.
// KubeVirt accepts these devices without a name or with one name twice, and libvirt refuses the domain: an alias must be unique.

var deviceNameRules = []guestRule{
	{deviceNames, []Rule{
		{Name: "devices/name", KubeVirt: KubeVirtRefusesSome, MendedBy: byPreference},
		{Name: "devices/name-form", KubeVirt: KubeVirtAdmits, MendedBy: byPreference},
		{Name: "devices/name-twice", MendedBy: byPreference},
	}},
}

// deviceNames are unique in each list; gpus and hostDevices count as one list, because both become host devices of the domain.
// Disks are not among them: a disk has the name of its volume, and disks.go requires a stricter form.
func deviceNames(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	devices, path := spec.Domain.Devices, path.Child("domain", "devices")
	passed, systems, typed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, d := range devices.GPUs {
		errs = append(errs, distinctName(passed, d.Name, path.Child("gpus").Index(i))...)
	}
	for i, d := range devices.HostDevices {
		errs = append(errs, distinctName(passed, d.Name, path.Child("hostDevices").Index(i))...)
	}
	for i, d := range devices.Filesystems {
		errs = append(errs, distinctName(systems, d.Name, path.Child("filesystems").Index(i))...)
	}
	for i, d := range devices.Inputs {
		errs = append(errs, distinctName(typed, d.Name, path.Child("inputs").Index(i))...)
	}
	if devices.Watchdog != nil {
		errs = append(errs, distinctName(map[string]bool{}, devices.Watchdog.Name, path.Child("watchdog"))...)
	}
	if devices.Sound != nil && devices.Sound.Name != "" { // rule devices/sound-name reports an absent one
		errs = append(errs, distinctName(map[string]bool{}, devices.Sound.Name, path.Child("sound"))...)
	}
	return errs
}

// distinctName judges the name of one device; taken holds the names of the devices before it.
func distinctName(taken map[string]bool, name string, at *field.Path) field.ErrorList {
	at = at.Child("name")
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "give the device a name").WithOrigin("devices/name")}
	case !vm.IsDeviceName(name):
		return field.ErrorList{field.Invalid(at, name, "must consist of letters, digits, '-' and '_'").WithOrigin("devices/name-form")}
	case taken[name]:
		return field.ErrorList{field.Duplicate(at, name).WithOrigin("devices/name-twice")}
	}
	taken[name] = true
	return nil
}
