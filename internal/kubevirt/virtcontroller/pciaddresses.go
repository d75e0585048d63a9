package virtcontroller

import (
	"maps"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/hardware"
	"github.com/kilnvm/kiln/pkg/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// A guest that KubeVirt runs without Kiln's hook keeps only the PCI addresses of its virtio disks and interfaces: KubeVirt's API can pin only these, by
// pciAddress. libvirt places the other devices around them. KubeVirt: pkg/virt-launcher/virtwrap/converter/converter.go, converter/network/configurator.go and
// converter/pci-placement.go, v1.9.

// highestBus is the highest bus whose recorded addresses are used. libvirt adds root ports up to the bus of an address, and fails if the root bus has no slot
// left: it defines no guest with an address on bus fe. With 128 buses, half of the root bus remains for other devices.
const highestBus = 0x7f

// KeepAddresses sets pciAddress of the virtio disks and virtio interfaces of an explicit VMI to the recorded addresses. Virtio disks that are not recorded get
// ports above all recorded devices: libvirt would give them the ports of the devices that it places later, such as the balloon. Fields that are set stay. It
// leaves out addresses that libvirt might refuse, and addresses behind a root port that would be elsewhere. The record must have passed record.Check.
func KeepAddresses(vmi *v1.VirtualMachineInstance, frozen *record.Record) {
	if !hasFreePorts(vmi) {
		return
	}
	devices := &vmi.Spec.Domain.Devices
	ports, spare := recordedPorts(frozen)
	for i := range devices.Interfaces {
		ports.removeBus(devices.Interfaces[i].PciAddress)
		spare.removeBus(devices.Interfaces[i].PciAddress)
	}
	for i := range devices.Disks {
		if disk := devices.Disks[i].Disk; disk != nil {
			ports.removeBus(disk.PciAddress)
			spare.removeBus(disk.PciAddress)
		}
	}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; isVirtio(nic) && nic.PciAddress == "" {
			nic.PciAddress = ports[record.Key("interface", nic.Name)]
		}
	}
	free := slices.Sorted(maps.Values(spare)) // texts of one length
	for i := range devices.Disks {
		disk := &devices.Disks[i]
		if !isPlaceable(vmi, disk) || disk.Disk.PciAddress != "" {
			continue
		}
		key := record.Key("disk", disk.Name)
		disk.Disk.PciAddress = ports[key]
		if _, recorded := frozen.Devices[key]; !recorded && len(free) > 0 {
			disk.Disk.PciAddress, free = free[0], free[1:]
		}
	}
}

// hasFreePorts reports whether only libvirt creates root ports for a VMI, and puts virtio devices behind them.
func hasFreePorts(vmi *v1.VirtualMachineInstance) bool {
	spec, devices, machine := &vmi.Spec, &vmi.Spec.Domain.Devices, ""
	if spec.Domain.Machine != nil {
		machine = spec.Domain.Machine.Type
	}
	switch {
	case spec.Architecture == "amd64" && !strings.Contains(machine, "q35") || spec.Architecture == "arm64" && !strings.HasPrefix(machine, "virt"):
		return false // as KubeVirt's SupportsPCIeHotplug
	case spec.Architecture != "amd64" && spec.Architecture != "arm64":
		return false
	case vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true": // it has none
		return false
	case devices.UseVirtioTransitional != nil && *devices.UseVirtioTransitional: // conventional devices, behind a bridge
		return false
	}
	return !followsNUMA(spec)
}

// followsNUMA reports whether KubeVirt may give a guest expander buses. KubeVirt numbers them from 1 on, as libvirt numbers the root ports.
func followsNUMA(spec *v1.VirtualMachineInstanceSpec) bool {
	hostDevices := len(spec.Domain.Devices.GPUs) + len(spec.Domain.Devices.HostDevices)
	for i := range spec.Domain.Devices.Interfaces {
		if spec.Domain.Devices.Interfaces[i].SRIOV != nil {
			hostDevices++
		}
	}
	return hostDevices > 0 && spec.Domain.CPU != nil && spec.Domain.CPU.DedicatedCPUPlacement
}

// isPlaceable reports whether a disk is on a PCI bus when the guest starts. Virt-launcher refuses a pciAddress on any other bus. It plugs hotpluggable volumes
// in later, when libvirt may have given their place to another device.
func isPlaceable(vmi *v1.VirtualMachineInstance, disk *v1.Disk) bool {
	if disk.Disk == nil || hardware.Bus(disk.Disk.Bus).Address != hardware.OnPCI {
		return false
	}
	for i := range vmi.Spec.Volumes {
		if volume := &vmi.Spec.Volumes[i]; volume.Name == disk.Name {
			return !isHotpluggable(volume)
		}
	}
	return false
}

func isHotpluggable(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.Hotpluggable || volume.DataVolume != nil && volume.DataVolume.Hotpluggable
}

// isVirtio reports whether an interface is a virtio device that KubeVirt's converter creates. A binding plugin creates its own device. An SR-IOV device does
// not count: with a pciAddress KubeVirt does not put it next to its NUMA node, and may refuse to start the guest.
func isVirtio(nic *v1.Interface) bool {
	return hardware.Model(nic.Model).Virtio && nic.SRIOV == nil && nic.Binding == nil && nic.State != v1.InterfaceStateAbsent
}

// portAddresses are addresses behind root ports, by the key of the device in the record.
type portAddresses map[string]string

// removeBus removes the device on the bus of an address, which may be empty.
func (p portAddresses) removeBus(pin string) {
	at, err := address.ParsePCI(pin)
	if err != nil {
		return
	}
	for key, text := range p {
		if other, _ := address.ParsePCI(text); other.Bus == at.Bus {
			delete(p, key)
		}
	}
}

// recordedPorts returns the recorded addresses that libvirt can give again, by the key of the device, and the addresses behind the root ports above all of
// them, by the key of the port. For an address on bus n libvirt creates root ports 1 to n, one function after the other, and adds bridges afterwards. So the
// list ends at the first number that was not a root port or was elsewhere: above a later device the guest would find another port.
func recordedPorts(frozen *record.Record) (used, spare portAddresses) {
	last, highest := uint(0), uint(0)
	first, err := address.ParsePCI(frozen.Devices[record.ControllerKey("pci", 1)].PCI)
	for ; err == nil && last < highestBus; last++ {
		port := frozen.Devices[record.ControllerKey("pci", last+1)]
		want := address.PCI{Slot: first.Slot + last/8, Function: last % 8}
		if port.PCI != want.String() || port.Expander != "" {
			break
		}
	}
	used, spare = portAddresses{}, portAddresses{}
	keys := map[uint]string{}
	for key, a := range frozen.Devices {
		at, err := address.ParsePCI(a.PCI)
		if err != nil || at.Bus == 0 || at.Bus > last {
			continue
		}
		highest = max(highest, at.Bus)
		if at.Slot > 0 || at.Function > 0 {
			continue
		}
		if other, shared := keys[at.Bus]; shared { // it is not known which of them was there
			delete(used, other)
			continue
		}
		keys[at.Bus], used[key] = key, at.String()
	}
	for bus := highest + 1; bus <= last; bus++ {
		spare[record.ControllerKey("pci", bus)] = address.PCI{Bus: bus}.String()
	}
	return used, spare
}

// nameRecorded writes into an annotation of an explicit VMI which interfaces have an address that the template of its VM does not have. KubeVirt compares the
// interfaces of VMI and VM field by field when the VM's interfaces are edited, and requires a restart if they differ. So ForgetAddresses removes these
// addresses when the guest runs. A value from the template is replaced. KubeVirt: pkg/network/vmliveupdate, v1.9.
func nameRecorded(vmi *v1.VirtualMachineInstance, vm *v1.VirtualMachine) {
	written := map[string]bool{}
	if vm.Spec.Template != nil {
		for _, nic := range vm.Spec.Template.Spec.Domain.Devices.Interfaces {
			written[nic.Name] = nic.PciAddress != ""
		}
	}
	var names []string
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		if nic := &vmi.Spec.Domain.Devices.Interfaces[i]; nic.PciAddress != "" && !written[nic.Name] {
			names = append(names, nic.Name)
		}
	}
	if delete(vmi.Annotations, v1alpha1.AnnotationInterfaceAddresses); len(names) > 0 {
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, v1alpha1.AnnotationInterfaceAddresses, strings.Join(names, ","))
	}
}

// ForgetAddresses returns the VMI of an update by an account of KubeVirt without the recorded addresses of its interfaces, if its guest runs: virt-launcher has
// defined the domain, and reads them no more. It returns any other VMI as it is, and does not change the given one.
func (Completer) ForgetAddresses(vmi *v1.VirtualMachineInstance, user string, limits config.Limits) *v1.VirtualMachineInstance {
	list, named := vmi.Annotations[v1alpha1.AnnotationInterfaceAddresses]
	if !named || vmi.Status.Phase != v1.Running || !slices.Contains(limits.KubeVirt, user) {
		return vmi
	}
	vmi, names := vmi.DeepCopy(), strings.Split(list, ",")
	delete(vmi.Annotations, v1alpha1.AnnotationInterfaceAddresses)
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		if nic := &vmi.Spec.Domain.Devices.Interfaces[i]; slices.Contains(names, nic.Name) {
			nic.PciAddress = ""
		}
	}
	return vmi
}
