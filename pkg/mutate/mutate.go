// Package mutate makes the spec of a VMI explicit. It is an ordered list of passes; each fills one subject. A pass fills what is
// unset, never changes what is set, changes nothing the second time, and cannot fail: package validate refuses wrong input. There is one
// exception: a number below 1 in a probe counts as unset, as in Kubernetes.
//
// The passes reproduce what KubeVirt's virt-api does when a VMI is created: ApplyNewVMIMutations, which calls
// SetDefaultVirtualMachineInstance and the SetDefaults_ functions of kubevirt.io/api/core/v1. The comment of each pass names the
// function; docs/reference/deviations.md lists the differences. Package admit applies presets, instancetypes and preferences before. The controller sets status
// and finalizers.
package mutate

import (
	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// Apply runs all passes in their order.
func Apply(vmi *v1.VirtualMachineInstance, defaults config.Defaults) {
	for _, p := range passes {
		p.Run(vmi, defaults)
	}
}

// Each is Apply with an observer: after is called with the name of each pass when the pass has run.
func Each(vmi *v1.VirtualMachineInstance, defaults config.Defaults, after func(pass string)) {
	for _, p := range passes {
		p.Run(vmi, defaults)
		after(p.Name)
	}
}

// Attach adds the devices that a VMI gets by default: an interface, an input device, a disk for each volume. They have no model and no bus yet. A preference is
// applied between Attach and Apply, because its preferred models and buses are for these devices, too. Apply runs the same passes, because it must make a spec
// explicit without Attach; after Attach they add nothing.
func Attach(vmi *v1.VirtualMachineInstance, defaults config.Defaults) {
	for _, run := range attachPasses {
		run(vmi, defaults)
	}
}

// attachPasses lists the passes that add devices. Their order does not matter: no two of them write the same field.
var attachPasses = []func(*v1.VirtualMachineInstance, config.Defaults){defaultNetwork, defaultInput, volumeDisks}

// pass fills one subject. Its Name is what 'kubectl kiln explain' prints as the source of a default.
type pass struct {
	Name string
	Run  func(*v1.VirtualMachineInstance, config.Defaults)
}

// passes run in this order, which is close to the order of KubeVirt's calls. Only the pairs in order below are needed: TestOrderIsComplete shuffles the passes
// within these pairs.
var passes = []pass{
	{"architecture", defaultArchitecture},
	{"machine", machineType},
	{"cpu request", cpuRequest},
	{"memory", guestMemory},
	{"cpu topology", cpuTopology},
	{"image pull policy", pullPolicy},
	{"eviction", evictionStrategy},
	{"default network", defaultNetwork},
	{"default input", defaultInput},
	{"volume disks", volumeDisks},
	{"disk targets", diskTargets},
	{"disk buses", diskBuses},
	{"inputs", inputDevices},
	{"watchdog", watchdogModel},
	{"gpu displays", gpuDisplays},
	{"probes", probeDefaults},
	{"timers", enableTimers},
	{"features", enableFeatures},
	{"hyperv dependencies", hypervDependencies},
	{"enlightened vmcs", enlightenedVMCS},
	{"firmware", createFirmware},
	{"cpu model", cpuModel},
	{"max sockets", maxSockets},
	{"max memory", maxMemory},
	{"pci topology", pciTopology},
	{"emulator thread parity", emulatorParity},
	{"quote socket", quoteSocket},
}

// before is one dependency between passes: first runs before second, for the reason because.
type before struct{ first, second, because string }

// order lists all dependencies between passes. Every order of the passes that respects them makes the same VMI. Without a pair the second pass would read a
// field that is still unset: it would fill another value, or dereference a nil pointer such as domain.cpu.
var order = []before{
	{"architecture", "machine", "the default machine type is per architecture"},
	{"architecture", "disk buses", "the default bus is per architecture"},
	{"architecture", "inputs", "the default bus is per architecture"},
	{"architecture", "watchdog", "the default watchdog is per architecture"},
	{"architecture", "firmware", "arm64 guests boot by EFI"},
	{"architecture", "cpu model", "arm64 guests get the host's CPU"},
	{"architecture", "features", "s390x guests have no ACPI"},
	{"architecture", "max sockets", "arm64 has no CPU hotplug"},
	{"architecture", "max memory", "memory grows only on amd64"},
	{"machine", "pci topology", "only PCIe machines have one"},
	{"cpu request", "cpu topology", "without a topology the CPU request is the number of sockets"},
	{"memory", "max memory", "maxGuest derives from memory.guest"},
	{"cpu topology", "max sockets", "maxSockets derives from sockets"},
	{"cpu topology", "cpu model", "it creates domain.cpu"},
	{"cpu topology", "enlightened vmcs", "it creates domain.cpu"},
	{"cpu topology", "emulator thread parity", "it creates domain.cpu"},
	{"volume disks", "disk targets", "disks made for volumes need a target"},
	{"default input", "inputs", "the attached input device needs a type and a bus"},
	{"disk targets", "disk buses", "a bus belongs to a target"},
	{"features", "hyperv dependencies", "only enabled features have dependencies"},
	{"hyperv dependencies", "enlightened vmcs", "vapic, which evmcs needs, is switched on as its dependency"},
}
