package corpus

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"github.com/kilnvm/kiln/pkg/render"
	v1 "kubevirt.io/api/core/v1"
)

// edit adds or removes one device of an explicit VMI; false where there is nothing to remove.
type edit func(g generator, spec *v1.VirtualMachineInstanceSpec) bool

var edits = []edit{
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.Disks, func(d v1.Disk) {
			spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v v1.Volume) bool { return v.Name == d.Name })
		})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.Interfaces, func(i v1.Interface) {
			spec.Networks = slices.DeleteFunc(slices.Clone(spec.Networks), func(n v1.Network) bool { return n.Name == i.Name })
		})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.Filesystems, func(v1.Filesystem) {})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.HostDevices, func(v1.HostDevice) {})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.GPUs, func(v1.GPU) {})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return remove(g, &spec.Domain.Devices.Inputs, func(v1.Input) {})
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return cleared(&spec.Domain.Devices.Watchdog)
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return cleared(&spec.Domain.Devices.Sound)
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return cleared(&spec.Domain.Devices.Rng)
	},
	func(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
		return cleared(&spec.Domain.Devices.ClientPassthrough)
	},
	func(_ generator, spec *v1.VirtualMachineInstanceSpec) bool {
		spec.Domain.Devices.Rng = &v1.Rng{}
		return true
	},
	addDisk, addDisk, addInterface,
}

func addDisk(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
	name := fmt.Sprintf("added-%d", g.Uint32())
	disk := v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: []v1.DiskBus{"virtio", "scsi"}[g.IntN(2)]}}}
	spec.Domain.Devices.Disks = slices.Insert(slices.Clone(spec.Domain.Devices.Disks), g.IntN(len(spec.Domain.Devices.Disks)+1), disk)
	spec.Volumes = append(slices.Clone(spec.Volumes), v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}})
	return true
}

func addInterface(g generator, spec *v1.VirtualMachineInstanceSpec) bool {
	name := fmt.Sprintf("added-%d", g.Uint32())
	nic := v1.Interface{Name: name, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}}
	nics := spec.Domain.Devices.Interfaces
	spec.Domain.Devices.Interfaces = slices.Insert(slices.Clone(nics), g.IntN(len(nics)+1), nic)
	spec.Networks = append(slices.Clone(spec.Networks), v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
	return true
}

func remove[T any](g generator, list *[]T, with func(T)) bool {
	if len(*list) == 0 {
		return false
	}
	at := g.IntN(len(*list))
	with((*list)[at])
	*list = slices.Delete(slices.Clone(*list), at, at+1)
	return true
}

func cleared[T any](device **T) bool {
	was := *device != nil
	*device = nil
	return was
}

// gone reports whether a device has no address any more. A USB controller of model 'none' stays in the document.
func gone(a record.Address) bool {
	a.Index = nil
	return a == record.Address{}
}

// edited adds or removes one device and boots again with the record: every device that stays keeps its address, and no two
// share one.
func edited(g generator, m render.Machine, first render.Result) (broken findings) {
	m.VMI = m.VMI.DeepCopy()
	if !edits[g.IntN(len(edits))](g, &m.VMI.Spec) {
		return nil
	}
	m.Bindings, m.Frozen = backend.AssumedBindings(m.VMI), &first.Record
	next, errs := render.Domain(m)
	if len(errs) > 0 {
		return nil // such as a boot order or an address of the removed device: the edit would have been refused
	}
	owner := map[string]string{}
	for key, is := range next.Record.Devices {
		if was, had := first.Record.Devices[key]; had && !gone(is) && !reflect.DeepEqual(was, is) {
			broken.add("one device leaves every other address", "%s moves from %s to %s", key, text(was), text(is))
		}
		if is.PCI == "" {
			continue
		}
		if owner[is.PCI] != "" {
			broken.add("no two devices share an address", "%s and %s", owner[is.PCI], key)
		}
		owner[is.PCI] = key
	}
	return broken
}
