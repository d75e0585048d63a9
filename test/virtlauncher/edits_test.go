package virtlauncher

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/kilnvm/kiln/test/guest"
)

// edited is a VM with devices, and the same VM with one edit of its devices. No device that both have is written otherwise.
type edited struct {
	name, what string
	vm, later  *v1.VirtualMachine
}

// editedVM returns the VM of a seed and its edit. The same seed gives the same.
func editedVM(seed uint64) edited {
	random := rand.New(rand.NewPCG(seed, 40)) //nolint:gosec // to be repeated
	e := edited{name: fmt.Sprintf("guest-%02d", seed), vm: &v1.VirtualMachine{}}
	vm := e.vm
	vm.APIVersion, vm.Kind, vm.Name = v1.GroupVersion.String(), "VirtualMachine", e.name
	halted, grace := v1.RunStrategyHalted, int64(0)
	vm.Spec.RunStrategy = &halted
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	spec := &vm.Spec.Template.Spec
	spec.TerminationGracePeriodSeconds = &grace
	memory := resource.MustParse("256Mi")
	spec.Domain.Memory = &v1.Memory{Guest: &memory}
	spec.Domain.Firmware = &v1.Firmware{KernelBoot: &v1.KernelBoot{KernelArgs: guest.Cmdline + " kiln.places=1",
		Container: &v1.KernelBootContainer{Image: KernelImage, KernelPath: UnpackedPath, InitrdPath: InitrdPath, ImagePullPolicy: "IfNotPresent"}}}
	if random.IntN(4) > 0 {
		toggleNIC(spec, seed)
	} else {
		no := false
		spec.Domain.Devices.AutoattachPodInterface = &no
	}
	for i := range 2 + random.IntN(3) {
		addDisk(spec, fmt.Sprintf("disk%d", i), randomBus(random), len(spec.Domain.Devices.Disks))
	}
	for _, kind := range kinds {
		if kind.base && random.IntN(2) == 0 {
			kind.toggle(&spec.Domain.Devices)
		}
	}
	e.later = vm.DeepCopy()
	e.what = edit(&e.later.Spec.Template.Spec, random, seed)
	return e
}

// randomBus is virtio for every second disk.
func randomBus(random *rand.Rand) v1.DiskBus {
	return []v1.DiskBus{v1.DiskBusVirtio, v1.DiskBusVirtio, v1.DiskBusSATA, v1.DiskBusSCSI}[random.IntN(4)]
}

// kinds are devices that a guest has or has not. base tells which of them guests may have before the edit.
var kinds = []struct {
	name   string
	base   bool
	toggle func(*v1.Devices)
}{
	{"RNG", true, func(d *v1.Devices) { d.Rng = toggled(d.Rng, &v1.Rng{}) }},
	{"USB tablet", true, func(d *v1.Devices) { toggleInput(d, "pen", v1.InputBusUSB) }},
	{"virtio tablet", true, func(d *v1.Devices) { toggleInput(d, "touch", v1.InputBusVirtio) }},
	{"balloon", false, func(d *v1.Devices) { no := false; d.AutoattachMemBalloon = toggled(d.AutoattachMemBalloon, &no) }},
	{"watchdog", true, func(d *v1.Devices) {
		d.Watchdog = toggled(d.Watchdog, &v1.Watchdog{Name: "dog",
			WatchdogDevice: v1.WatchdogDevice{I6300ESB: &v1.I6300ESBWatchdog{Action: v1.WatchdogActionReset}}})
	}},
	{"graphics", false, func(d *v1.Devices) {
		no := false
		d.AutoattachGraphicsDevice = toggled(d.AutoattachGraphicsDevice, &no)
	}},
}

func toggled[T any](now, otherwise *T) *T {
	if now != nil {
		return nil
	}
	return otherwise
}

func toggleInput(d *v1.Devices, name string, bus v1.InputBus) {
	has := len(d.Inputs)
	d.Inputs = slices.DeleteFunc(d.Inputs, func(input v1.Input) bool { return input.Name == name })
	if len(d.Inputs) == has {
		d.Inputs = append(d.Inputs, v1.Input{Name: name, Type: v1.InputTypeTablet, Bus: bus})
	}
}

// boards are the kinds of edits that move root ports or the numbers of buses, so that only the hook keeps the other devices at their places.
var boards = []string{"watchdog", "graphics"}

// edit edits the devices of a VM once, and returns what it did.
func edit(spec *v1.VirtualMachineInstanceSpec, random *rand.Rand, seed uint64) string {
	devices := &spec.Domain.Devices
	switch n := random.IntN(16); {
	case n < 5: // at any place of the list
		bus := randomBus(random)
		addDisk(spec, "new", bus, random.IntN(len(devices.Disks)+1))
		return "new disk: " + string(bus)
	case n < 8:
		disk := devices.Disks[random.IntN(len(devices.Disks))]
		removeDisk(spec, disk.Name)
		return "no disk: " + string(disk.Disk.Bus)
	case n < 9: // the disk itself does not count, as it is another device
		at := random.IntN(len(devices.Disks))
		name, bus := devices.Disks[at].Name, v1.DiskBusSCSI
		if devices.Disks[at].Disk.Bus == bus {
			bus = v1.DiskBusVirtio
		}
		removeDisk(spec, name)
		addDisk(spec, "moved", bus, at)
		return "another bus for a disk: " + string(bus)
	case n < 11:
		toggleNIC(spec, seed)
		return "interface"
	default:
		kind := kinds[random.IntN(len(kinds))]
		kind.toggle(devices)
		return kind.name
	}
}

// addDisk puts an empty disk at a place of the list. Its serial number is its name.
func addDisk(spec *v1.VirtualMachineInstanceSpec, name string, bus v1.DiskBus, at int) {
	spec.Domain.Devices.Disks = slices.Insert(spec.Domain.Devices.Disks, at,
		v1.Disk{Name: name, Serial: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}})
	spec.Volumes = append(spec.Volumes, v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("8Mi")}}})
}

func removeDisk(spec *v1.VirtualMachineInstanceSpec, name string) {
	spec.Domain.Devices.Disks = slices.DeleteFunc(spec.Domain.Devices.Disks, func(d v1.Disk) bool { return d.Name == name })
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
}

// toggleNIC gives a VM an interface on the network of pods, or takes it away. More networks need Multus and the kernel's driver of dummy interfaces, which
// KubeVirt's binding bridge makes.
func toggleNIC(spec *v1.VirtualMachineInstanceSpec, seed uint64) {
	devices := &spec.Domain.Devices
	if len(devices.Interfaces) > 0 {
		no := false
		devices.Interfaces, spec.Networks, devices.AutoattachPodInterface = nil, nil, &no
		return
	}
	devices.AutoattachPodInterface = nil
	devices.Interfaces = []v1.Interface{{Name: "default", MacAddress: fmt.Sprintf("02:00:00:00:40:%02x", seed),
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
	spec.Networks = []v1.Network{{Name: "default", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}}}
}

// patch returns the edit as a JSON patch (RFC 6902): KubeVirt has written firmware and machine into the stored template.
func (e edited) patch() (string, error) {
	spec := &e.later.Spec.Template.Spec
	text, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/spec/template/spec/domain/devices", "value": spec.Domain.Devices},
		{"op": "add", "path": "/spec/template/spec/networks", "value": append([]v1.Network{}, spec.Networks...)}, // never null
		{"op": "replace", "path": "/spec/template/spec/volumes", "value": spec.Volumes},
	})
	return string(text), err
}
