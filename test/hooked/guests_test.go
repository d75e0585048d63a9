package hooked

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kilnvm/kiln/pkg/admit"
	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// guest is a random VMI. The same seed makes the same one.
func guest(random *rand.Rand) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Namespace, vmi.Name, vmi.UID = "default", "guest", "00000000-0000-4000-8000-000000000001"
	domain := &vmi.Spec.Domain
	domain.Firmware = &v1.Firmware{UUID: types.UID("5d307ca9-b3ef-428c-8861-06e72d69f223")}
	domain.Memory = &v1.Memory{Guest: quantity([]string{"1Gi", "4Gi"}[random.IntN(2)])}
	domain.CPU = &v1.CPU{Model: "qemu64"}
	for i := range 1 + random.IntN(4) {
		addDisk(vmi, random, fmt.Sprintf("disk%d", i), len(vmi.Spec.Domain.Devices.Disks))
	}
	for i := range random.IntN(4) {
		addInterface(vmi, fmt.Sprintf("net%d", i), i)
	}
	for _, edit := range optional {
		if random.IntN(2) == 0 {
			edit(vmi)
		}
	}
	return vmi
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// optional devices.
var optional = []func(*v1.VirtualMachineInstance){
	func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.Devices.Rng = &v1.Rng{} },
	func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.Watchdog = &v1.Watchdog{Name: "dog",
			WatchdogDevice: v1.WatchdogDevice{I6300ESB: &v1.I6300ESBWatchdog{Action: v1.WatchdogActionReset}}}
	},
	func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.Inputs = append(vmi.Spec.Domain.Devices.Inputs, v1.Input{Name: "pen", Type: v1.InputTypeTablet, Bus: v1.InputBusUSB})
	},
	func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.Inputs = append(vmi.Spec.Domain.Devices.Inputs, v1.Input{Name: "touch", Type: v1.InputTypeTablet, Bus: v1.InputBusVirtio})
	},
	func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.Sound = &v1.SoundDevice{Name: "speaker", Model: "ich9"}
	},
	func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.ClientPassthrough = &v1.ClientPassthroughDevices{}
	},
	func(vmi *v1.VirtualMachineInstance) {
		off := false
		vmi.Spec.Domain.Devices.AutoattachSerialConsole = &off
	},
}

// addDisk puts a disk at a place of the list.
func addDisk(vmi *v1.VirtualMachineInstance, random *rand.Rand, name string, at int) {
	bus := []v1.DiskBus{v1.DiskBusVirtio, v1.DiskBusVirtio, v1.DiskBusSATA, v1.DiskBusSCSI}[random.IntN(4)]
	devices := &vmi.Spec.Domain.Devices
	devices.Disks = slices.Insert(devices.Disks, at, v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}})
	vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
		PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}})
}

// addInterface puts an interface at a place of the list.
func addInterface(vmi *v1.VirtualMachineInstance, name string, at int) {
	devices := &vmi.Spec.Domain.Devices
	devices.Interfaces = slices.Insert(devices.Interfaces, at, v1.Interface{Name: name,
		InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}})
	network := v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}}
	vmi.Spec.Networks = slices.Insert(vmi.Spec.Networks, at, network)
}

// edited is a VMI whose other devices were edited: some before those that it has, some after, and some are gone. It returns what was done.
func edited(vmi *v1.VirtualMachineInstance, random *rand.Rand) (out *v1.VirtualMachineInstance, what []string) {
	out = vmi.DeepCopy()
	devices := &out.Spec.Domain.Devices
	for n := 1 + random.IntN(3); n > 0; n-- {
		name := fmt.Sprintf("new%d", n)
		switch random.IntN(6) {
		case 0, 1:
			addDisk(out, random, name, random.IntN(len(devices.Disks)+1))
			what = append(what, "disk")
		case 2, 3:
			addInterface(out, name, random.IntN(len(devices.Interfaces)+1))
			what = append(what, "interface")
		case 4:
			i := random.IntN(len(devices.Disks))
			if len(devices.Disks) == 1 {
				continue
			}
			gone := devices.Disks[i].Name
			devices.Disks = slices.Delete(devices.Disks, i, i+1)
			out.Spec.Volumes = slices.DeleteFunc(out.Spec.Volumes, func(v v1.Volume) bool { return v.Name == gone })
			what = append(what, "no "+gone)
		case 5:
			if devices.Rng == nil {
				devices.Rng = &v1.Rng{}
				what = append(what, "rng")
			} else {
				devices.Rng = nil
				what = append(what, "no rng")
			}
		}
	}
	return out, what
}

// explicit is a VMI after stage 1, which gives it what KubeVirt's webhook would.
func explicit(t *testing.T, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	t.Helper()
	out, verdict := admit.VMI(vmi.DeepCopy(), admit.Input{Cluster: defaults(t)})
	if len(verdict.Errors) > 0 {
		t.Fatal(verdict.Errors.ToAggregate())
	}
	return out
}

func defaults(t *testing.T) config.Cluster {
	t.Helper()
	out, errs := config.FromKubeVirt(v1.KubeVirtConfiguration{})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out
}
