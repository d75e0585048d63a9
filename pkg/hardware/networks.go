package hardware

import v1 "kubevirt.io/api/core/v1"

// Fields: domain.devices.interfaces[].model.

// InterfaceModel describes a model of network interfaces. The zero value stands for a model that Kiln does not support.
type InterfaceModel struct {
	// Name is the model in the API and in libvirt.
	Name string
	// Architectures are those whose QEMU has the model.
	Architectures []string
	// Conventional means that the card is a conventional PCI device, which goes on the root bus. Others are PCI Express devices behind root ports.
	Conventional bool
	// Virtio means that the card is a virtio device, whose model in libvirt, queues and IOMMU the VMI decides.
	Virtio bool
	// Libvirt and QEMU are the first versions that have the model; empty if all have that Kiln supports.
	Libvirt, QEMU string
}

var withPCICards = []string{amd64, arm64}

// InterfaceModels are all models, in alphabetical order.
var InterfaceModels = []*InterfaceModel{
	{Name: "e1000", Architectures: withPCICards, Conventional: true},
	{Name: "e1000e", Architectures: withPCICards},
	{Name: "igb", Architectures: withPCICards, Libvirt: "9.3.0", QEMU: "8.0.0"},
	{Name: "ne2k_pci", Architectures: withPCICards, Conventional: true},
	{Name: "pcnet", Architectures: withPCICards, Conventional: true},
	{Name: "rtl8139", Architectures: withPCICards, Conventional: true},
	{Name: v1.VirtIO, Architectures: Architectures, Virtio: true},
}

var unknownModel = &InterfaceModel{}

// Model returns the model with a name, and the zero value for other names. The API's default for an empty name is virtio. Nothing may write to it.
func Model(name string) *InterfaceModel {
	if name == "" {
		name = v1.VirtIO
	}
	for _, m := range InterfaceModels {
		if m.Name == name {
			return m
		}
	}
	return unknownModel
}

// On reports whether guests of an architecture can have the model. It returns true for each known model if the architecture is unknown.
func (m *InterfaceModel) On(architecture string) bool {
	return m.Name != "" && isOn(m.Architectures, architecture)
}

// ModelsFor returns the names of the models that guests of an architecture have, in alphabetical order.
func ModelsFor(architecture string) (names []string) {
	for _, m := range InterfaceModels {
		if m.On(architecture) {
			names = append(names, m.Name)
		}
	}
	return names
}
