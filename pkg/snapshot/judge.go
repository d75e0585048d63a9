package snapshot

import (
	"fmt"
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fact is what is known about an object that a VM needs.
type Fact int

const (
	// Gone means that the cluster has no such object, or does not serve its kind. It is the zero value: an object about which nothing is known counts as gone.
	Gone Fact = iota
	// Present means that the object exists, and the VM may use it.
	Present
	// Denied means that the account that created the restore may not use the object, whether or not the object exists.
	Denied
	// Shared means that another VM uses the object: two guests would write to one disk.
	Shared
	// Forbidden means that the configuration of the cluster does not permit the resource.
	Forbidden
)

// Facts are the facts about the objects that a VM needs.
type Facts map[Object]Fact

// Cause is a need that is not met, so that the VM may not be restored.
type Cause struct {
	Need
	Fact Fact
}

// Causes returns the needs that are not met, in their order.
func Causes(all []Need, known Facts) (causes []Cause) {
	for _, need := range all {
		if fact := known[need.Object]; fact != Present {
			causes = append(causes, Cause{need, fact})
		}
	}
	return causes
}

// Error returns the cause as an error at its path. The message says what to do.
func (c Cause) Error() *field.Error {
	err := &field.Error{Type: field.ErrorTypeNotFound, Field: c.Path.String(), BadValue: c.objectName(), Detail: c.remedyText()}
	if c.Fact == Denied || c.Fact == Forbidden || c.Fact == Shared {
		err.Type, err.BadValue = field.ErrorTypeForbidden, ""
		err.Detail = fmt.Sprintf("%s '%s' %s", c.Kind, c.objectName(), c.remedyText())
	}
	return err
}

// objectName returns the name of the object as messages have it.
func (c Cause) objectName() string {
	if c.Kind == Network {
		return c.Namespace + "/" + c.Name
	}
	return c.Name
}

// remedyText returns what is wrong with the object, and what to do.
func (c Cause) remedyText() string {
	var remedy string
	switch {
	case c.Fact == Denied:
		remedy = "may not be used by the account that created the restore: ask its owner for the right to get it"
	case c.Fact == Shared:
		remedy = "belongs to the VM of the snapshot, which does not include its content: two VMs would write to one disk; name another claim in spec.patches"
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
			deviceWords[c.Device.List], c.Device.Name, v1alpha1.AnnotationLeaveOut, v1alpha1.LeaveOutUnavailable)
	}
	return remedy
}

// deviceWords are the names of devices in messages, by their lists.
var deviceWords = map[string]string{
	volumes: "volume", networks: "network", gpus: "GPU", hostDevices: "host device", resourceClaims: "resource claim", credentials: "access credential",
}

// LeaveOut removes the devices of causes from a VM. It returns these devices, and the causes that remain because the VM cannot start without their objects.
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

// leaveOutNetworks removes networks with their interfaces. A VM without networks gets a default interface, which a VM that has lost all its networks must not
// get.
func leaveOutNetworks(spec *v1.VirtualMachineInstanceSpec, out func(list, name string) bool) {
	devices, had := &spec.Domain.Devices, len(spec.Networks)
	spec.Networks = slices.DeleteFunc(spec.Networks, func(of v1.Network) bool { return out(networks, of.Name) })
	devices.Interfaces = slices.DeleteFunc(devices.Interfaces, func(of v1.Interface) bool { return out(networks, of.Name) })
	if had > 0 && len(spec.Networks) == 0 {
		devices.AutoattachPodInterface = new(bool)
	}
}

// leaveOutHostDevices removes devices of plugins, and resource claims together with their devices and networks.
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

// Report returns the message of a condition about devices that are left out; empty if there are no such devices.
func Report(left []Device) string {
	text := ""
	for i, device := range left {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s '%s'", deviceWords[device.List], device.Name)
	}
	if text == "" {
		return ""
	}
	return "restored without " + text + ", which can no longer be attached: the guest finds other hardware than at the snapshot"
}
