// Package mutate makes a guest's spec explicit: ordered passes that fill what is unset, never change what is set, are a
// no-op the second time, and cannot fail. Wrong input is validate's to report. A probe's number below 1 counts as unset, as in
// Kubernetes.
package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Apply runs all passes in order.
func Apply(vmi *v1.VirtualMachineInstance, defaults config.Defaults) {
	for _, p := range passes {
		p.Run(vmi, defaults)
	}
}

// Each is Apply for those who want to know what each pass did: it calls back after each, with its name.
func Each(vmi *v1.VirtualMachineInstance, defaults config.Defaults, after func(pass string)) {
	for _, p := range passes {
		p.Run(vmi, defaults)
		after(p.Name)
	}
}

// Attach adds the devices that a guest has without naming them, still bare. A preference comes after it and before Apply:
// its preferred models and buses are meant for these devices as well. Apply runs the same passes, so that it makes a spec
// explicit by itself; after Attach they find nothing to add.
func Attach(vmi *v1.VirtualMachineInstance, defaults config.Defaults) {
	for _, run := range attach {
		run(vmi, defaults)
	}
}

// attach holds the passes that add devices. They have no order among them.
var attach = []func(*v1.VirtualMachineInstance, config.Defaults){defaultNetwork, defaultInput, volumeDisks}

// pass fills one subject.
type pass struct {
	Name string
	Run  func(*v1.VirtualMachineInstance, config.Defaults)
}

var passes = []pass{
	{"architecture", architecture},
	{"machine", machine},
	{"cpu request", cpuRequest},
	{"memory", guestMemory},
	{"cpu topology", topology},
	{"image pull policy", pullPolicy},
	{"eviction", eviction},
	{"default network", defaultNetwork},
	{"default input", defaultInput},
	{"volume disks", volumeDisks},
	{"disk targets", diskTargets},
	{"disk buses", diskBuses},
	{"inputs", inputs},
	{"watchdog", watchdog},
	{"gpu displays", gpuDisplays},
	{"probes", probes},
	{"timers", timers},
	{"features", features},
	{"hyperv dependencies", hypervDependencies},
	{"enlightened vmcs", enlightenedVMCS},
	{"firmware", firmware},
	{"cpu model", cpuModel},
	{"max sockets", maxSockets},
	{"max memory", maxMemory},
	{"pci topology", pciTopology},
	{"emulator thread parity", emulatorParity},
	{"quote socket", quoteSocket},
}

// before is one dependency of the list: the pass first runs before the pass second, because.
type before struct{ first, second, because string }

// order holds all that the list above depends on. Passes may run in every order that it allows.
var order = []before{
	{"architecture", "machine", "the default machine type is per architecture"},
	{"architecture", "disk buses", "the default bus is per architecture"},
	{"architecture", "inputs", "the default bus is per architecture"},
	{"architecture", "watchdog", "the default watchdog is per architecture"},
	{"architecture", "firmware", "arm64 guests boot by EFI"},
	{"architecture", "cpu model", "arm64 guests get the host's CPU"},
	{"architecture", "features", "s390x guests have no ACPI"},
	{"architecture", "max sockets", "arm64 has no CPU hotplug"},
	{"architecture", "max memory", "memory grows on amd64 alone"},
	{"machine", "pci topology", "only PCIe machines have one"},
	{"cpu request", "cpu topology", "without a topology the request counts sockets"},
	{"memory", "max memory", "the ceiling derives from the guest's memory"},
	{"cpu topology", "max sockets", "the ceiling derives from the sockets"},
	{"cpu topology", "cpu model", "it creates domain.cpu"},
	{"cpu topology", "enlightened vmcs", "it creates domain.cpu"},
	{"cpu topology", "emulator thread parity", "it creates domain.cpu"},
	{"volume disks", "disk targets", "disks made for volumes need a target"},
	{"default input", "inputs", "the device that is attached needs a type and a bus"},
	{"disk targets", "disk buses", "a bus belongs to a target"},
	{"features", "hyperv dependencies", "only enabled features have dependencies"},
	{"hyperv dependencies", "enlightened vmcs", "it may be a dependency's dependant"},
}
