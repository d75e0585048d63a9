package render

import (
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/hardware"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// adoptEquivalents replaces values of the running domain by the spec's values if the guest sees the same hardware with both.
func adoptEquivalents(running, spec *libvirtxml.Domain) {
	express := expressBuses(running)
	want := map[string]abi.Device{}
	for _, device := range abi.Devices(spec) {
		want[device.Key()] = device
	}
	for _, device := range abi.Devices(running) {
		have, wanted := virtioModel(device.Element), virtioModel(want[device.Key()].Element)
		if have != nil && wanted != nil && (isOnBus(device, express) || isOnCCW(device)) && isModern(*have) && isModern(*wanted) {
			*have = *wanted
		}
	}
	adoptTargetNames(running, spec)
	adoptDefaultTopology(running)
	adoptClock(running, spec)
	if spec.OS != nil && len(spec.OS.BootDevices) == 0 {
		abi.OrderBoot(running)
	}
}

// adoptTargetNames gives virtio disks the target names of the spec's disks at the same addresses. A target name such as hda is libvirt's name of the disk, and
// the guest finds a virtio disk by its address.
func adoptTargetNames(running, spec *libvirtxml.Domain) {
	places := map[string]*libvirtxml.DomainDisk{}
	for _, device := range abi.Devices(spec) {
		if device.Disk != nil {
			places[device.Key()] = device.Disk
		}
	}
	for _, device := range abi.Devices(running) {
		disk, wanted := device.Disk, places[device.Key()]
		if disk == nil || wanted == nil || disk.Target == nil || wanted.Target == nil || !hardware.Bus(disk.Target.Bus).Virtio {
			continue
		}
		if at := abi.FromLibvirt(disk.Address); at.PCI+at.CCW != "" && at == abi.FromLibvirt(wanted.Address) {
			disk.Target.Dev = wanted.Target.Dev
		}
	}
}

// dropChipsetWatchdog removes the watchdog of the chipset. Newer versions of libvirt, such as 11.3, add it to each domain of q35, and will add it at the next
// boot, too.
func dropChipsetWatchdog(dom *libvirtxml.Domain) {
	dom.Devices.Watchdogs = slices.DeleteFunc(dom.Devices.Watchdogs, func(w libvirtxml.DomainWatchdog) bool { return w.Model == "itco" })
}

// expressBuses are the numbers of the buses behind a PCIe root port or downstream port.
func expressBuses(dom *libvirtxml.Domain) map[uint]bool {
	buses := map[uint]bool{}
	for _, c := range dom.Devices.Controllers {
		if c.Type == "pci" && c.Index != nil && (c.Model == "pcie-root-port" || c.Model == "pcie-switch-downstream-port") {
			buses[*c.Index] = true
		}
	}
	return buses
}

func isOnBus(device abi.Device, buses map[uint]bool) bool {
	address := *device.Address
	return address != nil && address.PCI != nil && address.PCI.Bus != nil && buses[*address.PCI.Bus]
}

// isOnCCW reports whether a device is a channel device of s390x. These have one model, which libvirt writes as virtio or not at all.
func isOnCCW(device abi.Device) bool { return *device.Address != nil && (*device.Address).CCW != nil }

// isModern reports whether QEMU makes a device of this model without virtio 0.9 behind a PCIe port: there disable-legacy=auto is on, and the guest sees what
// it sees of virtio-non-transitional (QEMU: hw/virtio/virtio-pci.c, virtio_pci_realize).
func isModern(model string) bool {
	return model == "" || model == "virtio" || model == "virtio-scsi" || model == "virtio-non-transitional"
}

// virtioModel returns the model of a device that can be one of virtio, and nil for others.
func virtioModel(element any) *string {
	switch d := element.(type) {
	case *libvirtxml.DomainDisk:
		if d.Target != nil && hardware.Bus(d.Target.Bus).Virtio {
			return &d.Model
		}
	case *libvirtxml.DomainInterface:
		if d.Model != nil && strings.HasPrefix(d.Model.Type, "virtio") {
			return &d.Model.Type
		}
	case *libvirtxml.DomainController:
		if d.Type == "virtio-serial" || d.Type == "scsi" && strings.HasPrefix(d.Model, "virtio") {
			return &d.Model
		}
	case *libvirtxml.DomainRNG:
		return &d.Model
	case *libvirtxml.DomainMemBalloon:
		return &d.Model
	}
	return nil
}

// adoptDefaultTopology writes the topology of a domain that has none: libvirt makes each vCPU a socket.
func adoptDefaultTopology(dom *libvirtxml.Domain) {
	if dom.CPU != nil && dom.CPU.Topology == nil && dom.VCPU != nil {
		dom.CPU.Topology = &libvirtxml.DomainCPUTopology{Sockets: int(dom.VCPU.Value), Dies: 1, Cores: 1, Threads: 1}
	}
}

// adoptClock writes adjustment='reset' of a clock in UTC and present='yes' of a timer if the spec has these and the running domain does not. libvirt
// gives QEMU the same arguments for both clocks. The timers of a PC are there unless they are switched off. For others, such as kvmclock, the CPU model
// decides.
func adoptClock(running, spec *libvirtxml.Domain) {
	if running.Clock == nil || spec.Clock == nil {
		return
	}
	if running.Clock.Offset == "utc" && running.Clock.Adjustment == "" && spec.Clock.Adjustment == "reset" {
		running.Clock.Adjustment = spec.Clock.Adjustment
	}
	for i := range running.Clock.Timer {
		have := &running.Clock.Timer[i]
		for _, want := range spec.Clock.Timer {
			ofPC := have.Name == "rtc" || have.Name == "pit" || have.Name == "hpet"
			if ofPC && have.Name == want.Name && have.Present == "" && want.Present == "yes" {
				have.Present = want.Present
			}
		}
	}
}

// hasOwnAliases reports whether Kiln or KubeVirt has defined the domain: both give devices aliases of the user's kind, which others rarely do.
func hasOwnAliases(dom *libvirtxml.Domain) bool {
	for _, device := range abi.Devices(dom) {
		if device.Alias != nil && *device.Alias != nil && strings.HasPrefix((*device.Alias).Name, "ua-") {
			return true
		}
	}
	return false
}

// foreignDomainError is the first cause about a domain of another program, because the remedies of the others can be out of reach.
func foreignDomainError() *field.Error {
	return field.Forbidden(field.NewPath("spec", "domain"),
		"another program than Kiln or KubeVirt has defined the running domain. No VM can state all that such a domain may have: 'kubectl kiln import' with the "+
			"domain and -f records what the VM can keep, and reports the rest")
}
