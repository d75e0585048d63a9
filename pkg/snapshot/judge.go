package snapshot

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fact is what is known of an object.
type Fact int

const (
	// Gone means that the cluster has no such object, or does not serve its kind. It is what holds of an object of which nothing is known.
	Gone Fact = iota
	// Present means that the VM may have it.
	Present
	// Denied means that the account that asks for the restore may not use it. Whether it exists is not said.
	Denied
	// Shared means that another VM has it: two guests would write to one disk.
	Shared
	// Forbidden means that the configuration of the cluster does not permit the resource.
	Forbidden
)

// Facts are what is known of the objects that a VM needs.
type Facts map[Object]Fact

// Cause is why a VM may not be activated.
type Cause struct {
	Need
	Fact Fact
}

// Causes returns all needs that are not met, in their order.
func Causes(all []Need, known Facts) (causes []Cause) {
	for _, need := range all {
		if fact := known[need.Object]; fact != Present {
			causes = append(causes, Cause{need, fact})
		}
	}
	return causes
}

// Error returns the cause with its path and what to do about it.
func (c Cause) Error() *field.Error {
	err := &field.Error{Type: field.ErrorTypeNotFound, Field: c.Path.String(), BadValue: c.name(), Detail: c.remedy()}
	if c.Fact == Denied || c.Fact == Forbidden || c.Fact == Shared {
		err.Type, err.BadValue = field.ErrorTypeForbidden, ""
		err.Detail = fmt.Sprintf("%s '%s' %s", c.Kind, c.name(), c.remedy())
	}
	return err
}

// name is the object for a message.
func (c Cause) name() string {
	if c.Kind == Network {
		return c.Namespace + "/" + c.Name
	}
	return c.Name
}

// remedy says what to do.
func (c Cause) remedy() string {
	var remedy string
	switch {
	case c.Fact == Denied:
		remedy = "may not be used by the account that created the restore: ask its owner for the right to get it"
	case c.Fact == Shared:
		remedy = "is that of the VM of the snapshot, which does not include its content: two VMs would write to one disk; name another claim in spec.patches"
	case c.Fact == Forbidden:
		remedy = "is not permitted by the configuration of the cluster: ask its administrator"
	case c.Kind == Revision:
		return "restore this ControllerRevision from a backup: without it the VM would be another one"
	case c.Kind == Resource:
		remedy = "no node of the cluster offers this resource: install its device plugin"
	default:
		remedy = fmt.Sprintf("create this %s again", c.Kind)
	}
	if c.Device != (Device{}) {
		remedy += fmt.Sprintf(", or restore without %s '%s': set annotation '%s: \"%s\"' on a new restore",
			words[c.Device.List], c.Device.Name, v1alpha1.AnnotationLeaveOut, v1alpha1.LeaveOutUnavailable)
	}
	return remedy
}

// words are the lists of devices as people say.
var words = map[string]string{
	volumes: "volume", networks: "network", gpus: "GPU", hostDevices: "host device", resourceClaims: "resource claim", credentials: "access credential",
}

// LeaveOut takes the devices of causes out of a VM, and returns what is left out and the causes that remain: of what the VM cannot do without.
func LeaveOut(vm *v1.VirtualMachine, causes []Cause) (left []Device, remaining []Cause) {
	for _, cause := range causes {
		if cause.Device == (Device{}) {
			remaining = append(remaining, cause)
		} else if !slices.Contains(left, cause.Device) {
			left = append(left, cause.Device)
		}
	}
	spec := &vm.Spec.Template.Spec
	out := func(list, name string) bool { return slices.Contains(left, Device{list, name}) }
	devices := &spec.Domain.Devices
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(of v1.Volume) bool { return out(volumes, of.Name) })
	devices.Disks = slices.DeleteFunc(devices.Disks, func(of v1.Disk) bool { return out(volumes, of.Name) })
	devices.Filesystems = slices.DeleteFunc(devices.Filesystems, func(of v1.Filesystem) bool { return out(volumes, of.Name) })
	leaveOutNetworks(spec, out)
	leaveOutHostDevices(spec, out)
	index := -1
	spec.AccessCredentials = slices.DeleteFunc(spec.AccessCredentials, func(v1.AccessCredential) bool {
		index++
		return out(credentials, fmt.Sprint(index))
	})
	return left, remaining
}

// leaveOutNetworks takes networks with their cards. A VM that has none left must not get the card that one without networks gets.
func leaveOutNetworks(spec *v1.VirtualMachineInstanceSpec, out func(list, name string) bool) {
	devices, had := &spec.Domain.Devices, len(spec.Networks)
	spec.Networks = slices.DeleteFunc(spec.Networks, func(of v1.Network) bool { return out(networks, of.Name) })
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(of v1.Interface) bool { return out(networks, of.Name) })
	if had > 0 && len(spec.Networks) == 0 {
		devices.AutoattachPodInterface = new(bool)
	}
}

// leaveOutHostDevices takes devices of plugins, and claims with the devices and networks that are theirs.
func leaveOutHostDevices(spec *v1.VirtualMachineInstanceSpec, out func(list, name string) bool) {
	devices := &spec.Domain.Devices
	claimed := func(request *v1.ClaimRequest) bool { return request != nil && out(resourceClaims, request.ClaimName) }
	devices.GPUs = slices.DeleteFunc(devices.GPUs, func(of v1.GPU) bool { return out(gpus, of.Name) || claimed(of.ClaimRequest) })
	devices.HostDevices = slices.DeleteFunc(devices.HostDevices,
		func(of v1.HostDevice) bool { return out(hostDevices, of.Name) || claimed(of.ClaimRequest) })
	var gone []string
	for _, network := range spec.Networks {
		if claimed(network.ResourceClaim) {
			gone = append(gone, network.Name)
		}
	}
	leaveOutNetworks(spec, func(_, name string) bool { return slices.Contains(gone, name) })
	spec.ResourceClaims = slices.DeleteFunc(spec.ResourceClaims,
		func(of v1.VirtualMachineInstanceResourceClaim) bool { return out(resourceClaims, of.Name) })
}

// Report says what is left out, for a condition; empty if nothing is.
func Report(left []Device) string {
	text := ""
	for i, device := range left {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s '%s'", words[device.List], device.Name)
	}
	if text == "" {
		return ""
	}
	return "restored without " + text + ", which can no longer be attached: the guest finds other hardware than at the snapshot"
}
