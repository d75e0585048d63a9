package frontend

import (
	"fmt"
	"strings"

	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns architecture, domain.machine, domain.rebootPolicy, and the table of what differs between architectures.
//
// A machine type alias ('q35') means another machine with each QEMU. It is resolved at the first boot, with the host's
// table, and recorded: later boots have the recorded machine for as long as the user asks for the same alias. A versioned
// type is taken as it is written.

// profile is what an architecture's guests have in common.
type profile struct {
	libvirt string // libvirt's name of it
	// alias is the machine type alias, family the start of its versioned names.
	alias, family string
	// ccw guests have channel devices instead of PCI.
	ccw       bool
	diskBuses []string
	nicModels []string
	videos    []string
	watchdog  string
	// panics are the models to choose from; the first is meant when none is named. panic is what the machine has in any case.
	panics []string
	panic  string
	sounds []string
	tpm    string
	smbios bool
	usb    usbPolicy
	serial libvirtxml.DomainSerialTarget
	// gic is the interrupt controller's version, which libvirt would otherwise take from the host.
	gic string
	// rom reports whether network cards have option ROMs that slow the start when nothing boots from them.
	rom bool
	efi bool
	// fwcfg reports whether the board has the device by which QEMU hands files to firmware and guest.
	fwcfg bool
	// generation reports whether QEMU has the VM Generation ID device.
	generation bool
	// cpusGrow reports whether the board takes CPUs while it runs.
	cpusGrow bool
}

type usbPolicy int

const (
	usbOnDemand usbPolicy = iota
	usbAlways
	usbNever
)

var pciNICs = []string{"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"}

var profiles = map[string]profile{
	"amd64": {
		libvirt: "x86_64", alias: "q35", family: "pc-q35-",
		diskBuses: []string{"sata", "scsi", "usb", "virtio"},
		nicModels: pciNICs,
		videos:    []string{"bochs", "cirrus", "ramfb", "vga", "virtio"},
		watchdog:  "i6300esb",
		panics:    []string{"isa", "hyperv", "pvpanic"},
		sounds:    []string{"ac97", "ich9"},
		tpm:       "tpm-crb",
		smbios:    true, rom: true, efi: true, fwcfg: true, generation: true, cpusGrow: true,
		serial: libvirtxml.DomainSerialTarget{Type: "isa-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "isa-serial"}},
	},
	"arm64": {
		libvirt: "aarch64", alias: "virt", family: "virt-",
		diskBuses: []string{"scsi", "usb", "virtio"},
		nicModels: pciNICs,
		videos:    []string{"ramfb", "virtio"},
		panics:    []string{"pvpanic"}, // the others are an ISA port and a register of Hyper-V
		tpm:       "tpm-tis",           // QEMU's virt board has no CRB interface
		smbios:    true, rom: true, efi: true, fwcfg: true,
		usb: usbAlways, gic: "3",
		serial: libvirtxml.DomainSerialTarget{Type: "system-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "pl011"}},
	},
	"s390x": {
		libvirt: "s390x", alias: "s390-ccw-virtio", family: "s390-ccw-virtio-",
		ccw:       true,
		diskBuses: []string{"scsi", "virtio"},
		nicModels: pciNICs,
		videos:    []string{"virtio"},
		watchdog:  "diag288",
		cpusGrow:  true,
		panic:     "s390",
		usb:       usbNever,
		serial:    libvirtxml.DomainSerialTarget{Type: "sclp-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "sclpconsole"}},
	},
}

// name is unique on a host; libvirt shows it.
func (g *guest) name() string { return identity.DomainName(g.VMI.Namespace, g.VMI.Name) }

func (g *guest) osType() *libvirtxml.DomainOSType {
	return &libvirtxml.DomainOSType{Arch: g.arch.libvirt, Machine: g.machine(), Type: "hvm"}
}

func (g *guest) machine() string {
	path := g.path.Child("machine", "type")
	if g.spec.Domain.Machine == nil || g.spec.Domain.Machine.Type == "" {
		g.fail(field.Required(path, ""))
		return ""
	}
	wanted := g.spec.Domain.Machine.Type
	if strings.HasPrefix(wanted, g.arch.family) {
		return wanted
	}
	if wanted != g.arch.alias {
		// Vendors give aliases of their own, e.g. pc-q35-rhel9.4.0 is covered above, but i440fx or microvm are other boards,
		// with other buses than those that Kiln places devices on.
		err := field.NotSupported(path, wanted, []string{g.arch.alias, g.arch.family + "<version>"})
		g.fail(err)
		return ""
	}
	if f := g.Frozen; f != nil && strings.HasPrefix(f.Machine, g.arch.family) {
		return f.Machine
	}
	if resolved := g.Facts.Machines[wanted]; resolved != "" {
		return resolved
	}
	return wanted
}

// recordPath is the record in the guest's GuestHardware.
func (g *guest) recordPath() *field.Path {
	return field.NewPath("guesthardwares").Key(g.VMI.Name).Child("spec", "hardware")
}

// recordsThisBoard is false for the record of a guest whose owner has changed its architecture since: its models are another board's.
func (g *guest) recordsThisBoard() bool {
	machine := g.Frozen.Machine
	return machine == "" || machine == g.arch.alias || strings.HasPrefix(machine, g.arch.family)
}

// onReboot: a guest that is to be terminated on reboot is ended, so that its controller makes it anew.
func (g *guest) onReboot() string {
	policy := g.spec.Domain.RebootPolicy
	switch {
	case policy == nil || *policy == v1.RebootPolicyReboot:
		return "restart"
	case *policy == v1.RebootPolicyTerminate:
		return "destroy"
	}
	g.fail(field.NotSupported(g.path.Child("rebootPolicy"), *policy, []v1.RebootPolicy{v1.RebootPolicyReboot, v1.RebootPolicyTerminate}))
	return ""
}

// virtio is the model of a virtio device. Transitional ones also speak virtio 0.9, for guests of old.
func (g *guest) virtio() string {
	switch {
	case g.arch.ccw:
		return "virtio"
	case set(g.dev.UseVirtioTransitional):
		return "virtio-transitional"
	}
	return "virtio-non-transitional"
}

// supported reports whether a value is one of the architecture's, and adds an error when it is not.
func (g *guest) supported(path *field.Path, value string, values []string) bool {
	for _, v := range values {
		if v == value {
			return true
		}
	}
	if len(values) == 0 {
		g.fail(field.Forbidden(path, fmt.Sprintf("architecture '%s' does not support it", g.spec.Architecture)))
		return false
	}
	g.fail(field.NotSupported(path, value, values))
	return false
}
