package hostresources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/pod"
	"github.com/kilnvm/kiln/pkg/render"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// deviceVariables are the prefixes of variables in which device plugins write the addresses of a resource's devices, and the types of the devices.
type deviceVariables []struct{ prefix, kind string }

var (
	// pluginVariables are KubeVirt's prefixes, so that plugins for KubeVirt work.
	pluginVariables = deviceVariables{{v1.PCIResourcePrefix, "pci"}, {v1.MDevResourcePrefix, "mdev"}, {v1.USBResourcePrefix, "usb"}}
	// sriovVariables are the prefixes of the SR-IOV plugin of the network plumbing working group. They are used only for interfaces, because CNI plugins set VLAN
	// and MAC address of these devices. A host device would have neither.
	sriovVariables = deviceVariables{{"PCIDEVICE", "pci"}}
)

// variableName returns the variable of a resource, such as PCI_RESOURCE_VENDOR_COM_CARD for vendor.com/card.
func variableName(prefix, resource string) string {
	return prefix + "_" + strings.ToUpper(strings.NewReplacer("/", "_", ".", "_").Replace(resource))
}

func (p *Pod) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// hostDevices returns the devices of hostDevices, gpus and interfaces with sriov by name. A device that kubelet has not given to the pod is an error at its
// index.
func (p *Pod) hostDevices(vmi *v1.VirtualMachineInstance) (found map[string]backend.HostDev, errs field.ErrorList) {
	taken, unserved := map[string]bool{}, map[string]int{}
	find := func(at *field.Path, name string, from deviceRequest) {
		device, err := p.allocatedDevice(vmi, from, taken)
		if err != nil {
			errs = append(errs, field.Invalid(at, name, err.Error()))
			return
		}
		if found == nil {
			found = map[string]backend.HostDev{}
		}
		taken[device.Address], found[name] = true, device
		for _, more := range device.Bundle {
			taken[more] = true
		}
	}
	devices, path := vmi.Spec.Domain.Devices, field.NewPath("spec", "domain", "devices")
	for _, d := range devices.HostDevices {
		unserved[d.DeviceName]++
	}
	for _, d := range devices.GPUs {
		unserved[d.DeviceName]++
	}
	for i, nic := range devices.Interfaces {
		if nic.SRIOV != nil && nic.State != v1.InterfaceStateAbsent {
			find(path.Child("interfaces").Index(i), nic.Name, deviceRequest{
				deviceVariables: sriovVariables, resource: p.getenv(pod.EnvNetworkResource + nic.Name), claim: networkClaim(vmi, nic.Name)})
		}
	}
	for i, d := range devices.HostDevices {
		find(path.Child("hostDevices").Index(i), d.Name, deviceRequest{pluginVariables, d.DeviceName, d.ClaimRequest, unserved[d.DeviceName]})
		unserved[d.DeviceName]--
	}
	for i, d := range devices.GPUs {
		find(path.Child("gpus").Index(i), d.Name, deviceRequest{pluginVariables, d.DeviceName, d.ClaimRequest, unserved[d.DeviceName]})
		unserved[d.DeviceName]--
	}
	return found, errs
}

// networkClaim returns the ResourceClaim of a network, nil if it has none.
func networkClaim(vmi *v1.VirtualMachineInstance, name string) *v1.ClaimRequest {
	for _, network := range vmi.Spec.Networks {
		if network.Name == name {
			return network.ResourceClaim
		}
	}
	return nil
}

// deviceRequest is a request for a device: by a resource, with the variables of its plugins, or by a ResourceClaim.
type deviceRequest struct {
	deviceVariables
	resource string
	claim    *v1.ClaimRequest
	// unserved is the number of hostDevices and gpus of the resource that have no device yet, with this one.
	unserved int
}

// allocatedDevice returns a device of a request that no other device of the VMI has.
func (p *Pod) allocatedDevice(vmi *v1.VirtualMachineInstance, from deviceRequest, taken map[string]bool) (backend.HostDev, error) {
	if from.resource == "" {
		device, err := p.claimedDevice(vmi, from.claim)
		if err == nil && taken[device.Address] {
			err = errors.New("another device of this virtual machine instance has the same request of the same claim")
		}
		return device, err
	}
	given := 0
	for _, source := range from.deviceVariables {
		free, all, err := p.listedDevices(source.kind, p.getenv(variableName(source.prefix, from.resource)), taken)
		if err != nil {
			return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod %w", from.resource, err)
		}
		given += all
		switch {
		case len(free) == 0:
		case source.kind == "usb":
			return from.bundleUSB(free)
		default: // a plugin also lists functions that the guest does not need, such as others of a card's IOMMU group
			return free[0], nil
		}
	}
	if given == 0 {
		return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod no device", from.resource)
	}
	return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod %d, which other devices of the virtual machine instance have",
		from.resource, given)
}

// listedDevices reads the value of a variable. It returns the devices that are not taken, each once and in their order, and the number of all devices.
func (p *Pod) listedDevices(kind, value string, taken map[string]bool) (free []backend.HostDev, all int, err error) {
	seen := map[string]bool{}
	for text := range strings.SplitSeq(value, ",") {
		if text == "" {
			continue
		}
		device, err := p.hostDevice(kind, text)
		if err != nil {
			return nil, 0, err
		}
		if seen[device.Address] {
			continue
		}
		seen[device.Address] = true
		if all++; !taken[device.Address] {
			free = append(free, device)
		}
	}
	return free, all, nil
}

// bundleUSB returns the USB devices of a request. One unit of a resource of KubeVirt's plugin has all USB devices that its selectors name. Each unit is for
// one host device, and the plugin lists all devices of one unit before the devices of the next one.
func (r deviceRequest) bundleUSB(free []backend.HostDev) (device backend.HostDev, err error) {
	each := len(free) / r.unserved
	switch {
	case each*r.unserved != len(free):
		return device, fmt.Errorf("the device plugin of '%s' gave this pod %d USB devices for %d devices of the virtual machine instance, of which each must "+
			"have as many; have the node's plugin and the list of the virtual machine instance agree", r.resource, len(free), r.unserved)
	case each > render.MostBundled:
		return device, fmt.Errorf("the device plugin of '%s' gave this pod %d USB devices for one device of the virtual machine instance, which may have %d",
			r.resource, each, render.MostBundled)
	}
	device = free[0]
	for _, more := range free[1:each] {
		device.Bundle = append(device.Bundle, more.Address)
	}
	return device, nil
}

// hostDevice returns the device of an address that a device plugin or driver has written. The error completes the sentence 'plugin X gave this pod'.
func (p *Pod) hostDevice(kind, text string) (backend.HostDev, error) {
	switch kind {
	case "pci":
		at, err := address.ParseHostPCI(text)
		if err != nil {
			return backend.HostDev{}, fmt.Errorf("'%.63s', which %w", text, err)
		}
		return backend.HostDev{Type: kind, Address: at.String(), NUMANode: numaNode(p.path("/sys/bus/pci/devices/" + at.String()))}, nil
	case "mdev":
		return p.mediatedDevice(text)
	}
	var bus, device uint8
	_, err := fmt.Sscanf(text, "%d:%d", &bus, &device)
	if err != nil || text != fmt.Sprintf("%d:%d", bus, device) || bus == 0 || device == 0 || device > maxUSBDevice {
		return backend.HostDev{}, fmt.Errorf("'%.63s', which must be a USB bus and device such as '1:4'", text)
	}
	return backend.HostDev{Type: kind, Address: fmt.Sprintf("%d.%d", bus, device)}, nil
}

// maxUSBDevice is the highest number of a device on a USB bus.
const maxUSBDevice = 127

// mediatedDevice returns a mediated device by its UUID. The kernel reports its type: s390x has vfio-ap and vfio-ccw.
func (p *Pod) mediatedDevice(text string) (backend.HostDev, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return backend.HostDev{}, fmt.Errorf("'%.63s', which must be the UUID of a mediated device: %w", text, err)
	}
	device := backend.HostDev{Type: "mdev", Address: id.String()}
	folder, err := filepath.EvalSymlinks(p.path("/sys/bus/mdev/devices/" + id.String())) // below the folder of its card
	if err != nil {
		return device, nil //nolint:nilerr // libvirt reports a missing device
	}
	device.NUMANode = numaNode(filepath.Dir(folder))
	if api, err := os.ReadFile(filepath.Join(folder, "mdev_type", "device_api")); err == nil {
		if kind, special := mediatedKinds[strings.TrimSpace(string(api))]; special {
			device.Type = kind
		}
	}
	return device, nil
}

// mediatedKinds maps the kernel's types of mediated devices of s390x to libvirt's. All others are mdev.
var mediatedKinds = map[string]string{"vfio-ap": "ap", "vfio-ccw": "ccw"}

// numaNode reads the NUMA node of a device from its folder in sysfs; nil if the kernel knows none.
func numaNode(folder string) *int {
	text, err := os.ReadFile(filepath.Join(folder, "numa_node"))
	if err != nil {
		return nil
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return nil
	}
	return &node
}
