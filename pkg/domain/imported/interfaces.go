package imported

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// readInterfaces reads the network cards. The first card of user networking or of libvirt's network 'default' gets the network of the pod, unless the user has
// mapped it; other cards get a NetworkAttachmentDefinition.
func (r *reader) readInterfaces() {
	r.devices.AutoattachPodInterface = ptr.To(false)
	for i := range r.dom.Devices.Interfaces {
		r.readInterface(&r.dom.Devices.Interfaces[i], i)
	}
	r.devices.NetworkInterfaceMultiQueue = trueIf(slices.ContainsFunc(r.dom.Devices.Interfaces, func(i libvirtxml.DomainInterface) bool {
		return i.Driver != nil && i.Driver.Queues > 1
	}))
}

func (r *reader) readInterface(given *libvirtxml.DomainInterface, index int) {
	kind, from := connectionOf(given.Source)
	to, mapped := r.Networks[from]
	if kind == "hostdev" && !mapped {
		r.leaveOut("interface", index, "the card is a function of the host's PCI device %s: map it to a NetworkAttachmentDefinition of SR-IOV", from)
		return
	}
	name := fmt.Sprintf("net%d", index)
	given.Alias = abi.BoundAlias("interface", name)
	nic := v1.Interface{Name: name, Model: r.nearestModel(given.Model)}
	network := v1.Network{Name: name}
	isDefault := kind == "user" || kind == "network" && from == "default"
	switch {
	case !r.pod && (to == PodNetwork || !mapped && isDefault):
		r.pod, network.Pod, nic.Masquerade = true, &v1.PodNetwork{}, &v1.InterfaceMasquerade{}
		to = "the network of the pod"
	case kind == "hostdev":
		network.Multus, nic.SRIOV = &v1.MultusNetwork{NetworkName: to}, &v1.InterfaceSRIOV{}
		to = "NetworkAttachmentDefinition " + to
	default:
		if to == "" || to == PodNetwork { // only one card can have the network of the pod
			if to = objectName(from); to == "" {
				to = name
			}
		}
		network.Multus, nic.Bridge = &v1.MultusNetwork{NetworkName: to}, &v1.InterfaceBridge{}
		to = "NetworkAttachmentDefinition " + to
	}
	if given.MAC != nil {
		if macAddress.MatchString(given.MAC.Address) {
			nic.MacAddress = strings.ToLower(given.MAC.Address)
		}
	}
	if given.Link != nil && given.Link.State == "down" {
		nic.State = v1.InterfaceStateLinkDown
	}
	if given.ACPI != nil && given.ACPI.Index < 1<<14 {
		nic.ACPIIndex = int(given.ACPI.Index)
	}
	r.devices.Interfaces, r.spec.Networks = append(r.devices.Interfaces, nic), append(r.spec.Networks, network)
	r.Sources = append(r.Sources, Source{Device: "interface." + name, From: from, To: to})
}

var macAddress = regexp.MustCompile(`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`)

// nearestModel returns the model of a card, or virtio for a model that the architecture does not have.
func (r *reader) nearestModel(given *libvirtxml.DomainInterfaceModel) string {
	model := "virtio"
	switch {
	case given == nil && r.arch == "amd64":
		model = "rtl8139" // libvirt's default (qemuDomainDefaultNetModel)
	case given != nil && hardware.Model(given.Type).On(r.arch) && !hardware.Model(given.Type).Virtio:
		model = given.Type
	}
	return model
}

// connectionOf returns libvirt's type of a connection, and the name of what a card is connected to.
func connectionOf(source *libvirtxml.DomainInterfaceSource) (kind, name string) {
	switch {
	case source == nil || source.User != nil:
		return "user", "user"
	case source.Network != nil:
		return "network", source.Network.Network
	case source.Bridge != nil:
		return "bridge", source.Bridge.Bridge
	case source.Direct != nil:
		return "direct", source.Direct.Dev
	case source.Hostdev != nil:
		if pci := source.Hostdev.PCI; pci != nil && pci.Address != nil {
			return "hostdev", pciText(pci.Address)
		}
		return "hostdev", "hostdev"
	case source.VHostUser != nil:
		return "vhostuser", "vhostuser"
	case source.VDPA != nil:
		return "vdpa", source.VDPA.Device
	}
	return "other", ""
}

// pciText returns the address of a PCI device of the host as lspci writes it.
func pciText(a *libvirtxml.DomainAddressPCI) string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", ptr.Deref(a.Domain, 0), ptr.Deref(a.Bus, 0), ptr.Deref(a.Slot, 0), ptr.Deref(a.Function, 0))
}
