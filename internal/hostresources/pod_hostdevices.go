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

// variables are those in which device plugins write the addresses of a resource's devices, and the type of those devices.
type variables []struct{ prefix, kind string }

var (
	// plugged are KubeVirt's, so that plugins written for it work.
	plugged = variables{{v1.PCIResourcePrefix, "pci"}, {v1.MDevResourcePrefix, "mdev"}, {v1.USBResourcePrefix, "usb"}}
	// virtualFunctions are those of the network plumbing working group's plugin for SR-IOV. They are for interfaces alone: CNI plugins have given these
	// devices their VLAN and MAC address. As a host device, such a one would be without.
	virtualFunctions = variables{{"PCIDEVICE", "pci"}}
)

// variable returns the name of the variable of a resource: PCI_RESOURCE_VENDOR_COM_CARD for vendor.com/card.
func variable(prefix, resource string) string {
	return prefix + "_" + strings.ToUpper(strings.NewReplacer("/", "_", ".", "_").Replace(resource))
}

func (p *Pod) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// hostDevices finds the devices of hostDevices, gpus and interfaces with sriov that kubelet gave to the pod, by name. One that was not given is an error at
// its index.
func (p *Pod) hostDevices(vmi *v1.VirtualMachineInstance) (found map[string]backend.HostDev, errs field.ErrorList) {
	taken, unserved := map[string]bool{}, map[string]int{}
	find := func(at *field.Path, name string, from request) {
		device, err := p.allocated(vmi, from, taken)
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
			find(path.Child("interfaces").Index(i), nic.Name, request{
				variables: virtualFunctions, resource: p.getenv(pod.EnvNetworkResource + nic.Name), claim: networkClaim(vmi, nic.Name)})
		}
	}
	for i, d := range devices.HostDevices {
		find(path.Child("hostDevices").Index(i), d.Name, request{plugged, d.DeviceName, d.ClaimRequest, unserved[d.DeviceName]})
		unserved[d.DeviceName]--
	}
	for i, d := range devices.GPUs {
		find(path.Child("gpus").Index(i), d.Name, request{plugged, d.DeviceName, d.ClaimRequest, unserved[d.DeviceName]})
		unserved[d.DeviceName]--
	}
	return found, errs
}

// networkClaim returns the claim of a network; nil if it has none.
func networkClaim(vmi *v1.VirtualMachineInstance, name string) *v1.ClaimRequest {
	for _, network := range vmi.Spec.Networks {
		if network.Name == name {
			return network.ResourceClaim
		}
	}
	return nil
}

// request is what a device is asked for by: a resource, and the variables that plugins name its devices in, or a claim.
type request struct {
	variables
	resource string
	claim    *v1.ClaimRequest
	// unserved is how many hostDevices and gpus of the resource have no device yet, this one included.
	unserved int
}

// allocated returns a device that was given for a request and is not taken yet.
func (p *Pod) allocated(vmi *v1.VirtualMachineInstance, from request, taken map[string]bool) (backend.HostDev, error) {
	if from.resource == "" {
		device, err := p.claimed(vmi, from.claim)
		if err == nil && taken[device.Address] {
			err = errors.New("another device of this virtual machine instance has the same request of the same claim")
		}
		return device, err
	}
	given := 0
	for _, source := range from.variables {
		free, all, err := p.listed(source.kind, p.getenv(variable(source.prefix, from.resource)), taken)
		if err != nil {
			return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod %w", from.resource, err)
		}
		given += all
		switch {
		case len(free) == 0:
		case source.kind == "usb":
			return from.bundle(free)
		default: // a plugin also lists functions that are of no use to the guest, such as others of a card's IOMMU group
			return free[0], nil
		}
	}
	if given == 0 {
		return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod no device", from.resource)
	}
	return backend.HostDev{}, fmt.Errorf("the device plugin of '%s' gave this pod %d, which other devices of the virtual machine instance have",
		from.resource, given)
}

// listed reads the value of a variable. It returns the devices that are not taken, each once and in their order, and how many there are in all.
func (p *Pod) listed(kind, value string, taken map[string]bool) (free []backend.HostDev, all int, err error) {
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

// bundle returns the USB devices of a request. A resource of KubeVirt's plugin is all USB devices that its selectors name, together: the plugin lists those of
// one unit after those of another, and each unit is for one host device.
func (r request) bundle(free []backend.HostDev) (device backend.HostDev, err error) {
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

// hostDevice is the device of an address as device plugins and drivers write it. The error completes a sentence about who gave it.
func (p *Pod) hostDevice(kind, text string) (backend.HostDev, error) {
	switch kind {
	case "pci":
		at, err := address.ParseHostPCI(text)
		if err != nil {
			return backend.HostDev{}, fmt.Errorf("'%.63s', which %w", text, err)
		}
		return backend.HostDev{Type: kind, Address: at.String(), NUMANode: numaNode(p.at("/sys/bus/pci/devices/" + at.String()))}, nil
	case "mdev":
		return p.mediated(text)
	}
	var bus, device uint8
	if _, err := fmt.Sscanf(text, "%d:%d", &bus, &device); err != nil || text != fmt.Sprintf("%d:%d", bus, device) || bus == 0 || device == 0 || device > mostUSB {
		return backend.HostDev{}, fmt.Errorf("'%.63s', which must be a USB bus and device such as '1:4'", text)
	}
	return backend.HostDev{Type: kind, Address: fmt.Sprintf("%d.%d", bus, device)}, nil
}

// mostUSB is the highest number of a device on a USB bus.
const mostUSB = 127

// mediated is a mediated device by its UUID. The kernel says what it is: vfio-ap and vfio-ccw are those of s390x.
func (p *Pod) mediated(text string) (backend.HostDev, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return backend.HostDev{}, fmt.Errorf("'%.63s', which must be the UUID of a mediated device: %w", text, err)
	}
	device := backend.HostDev{Type: "mdev", Address: id.String()}
	folder, err := filepath.EvalSymlinks(p.at("/sys/bus/mdev/devices/" + id.String())) // it is below that of its card
	if err != nil {
		return device, nil //nolint:nilerr // libvirt reports a device that is not there
	}
	device.NUMANode = numaNode(filepath.Dir(folder))
	if api, err := os.ReadFile(filepath.Join(folder, "mdev_type", "device_api")); err == nil {
		if kind, special := mediatedKinds[strings.TrimSpace(string(api))]; special {
			device.Type = kind
		}
	}
	return device, nil
}

// mediatedKinds are the types of mediated devices of s390x by what the kernel calls them. All others are mdev.
var mediatedKinds = map[string]string{"vfio-ap": "ap", "vfio-ccw": "ccw"}

// numaNode reads the NUMA node of the device with a folder in sysfs; nil if the kernel knows none.
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
