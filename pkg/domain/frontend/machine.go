package frontend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kilnvm/kiln/pkg/identity"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns architecture, domain.machine, domain.rebootPolicy, and the table of what differs between architectures.
// KubeVirt: converter/arch, converter/compute/{os,reboot_policy}.go, and virt-config for the allowed machine types.
//
// A machine type alias ('q35') means another machine with each version of QEMU. It is resolved at the first boot, with the host's table, and
// recorded: later boots have the recorded machine while machine.type is that alias, whatever QEMU the next host has. A versioned type is
// rendered as it is written. KubeVirt leaves the alias to the QEMU of each start.

// boardProfile is what the VMIs of an architecture have in common.
type boardProfile struct {
	libvirt string // libvirt's name of the architecture
	// alias is the machine type alias, family the prefix of its versioned names.
	alias, family string
	// ccw is true for s390x, whose virtio devices are channel devices and not on PCI.
	ccw      bool
	videos   []string
	watchdog string
	// panics are the allowed models; the first is the default. panic is the model that the machine always has.
	panics []string
	panic  string
	sounds []string
	tpm    string
	smbios bool
	usb    usbPolicy
	serial libvirtxml.DomainSerialTarget
	// gic is the interrupt controller's version, which libvirt would otherwise take from the host.
	gic string
	// rom is true if network cards have option ROMs, which slow the start when nothing boots from them.
	rom bool
	efi bool
	// fwcfg is true if the board has fw_cfg, the device by which QEMU hands files to firmware and guest.
	fwcfg bool
	// generation is true if QEMU has the VM Generation ID device, vmgenid.
	generation bool
	// cpusGrow is true if QEMU's board supports CPU hot-plug.
	cpusGrow bool
}

// usbPolicy is KubeVirt's: amd64 has a USB controller if a device needs it, arm64 always, s390x never.
type usbPolicy int

const (
	usbOnDemand usbPolicy = iota
	usbAlways
	usbNever
)

var profiles = map[string]*boardProfile{
	"amd64": {
		libvirt: "x86_64", alias: "q35", family: "pc-q35-",
		videos:   []string{"bochs", "cirrus", "ramfb", "vga", "virtio"},
		watchdog: "i6300esb",
		panics:   []string{"isa", "hyperv", "pvpanic"},
		sounds:   []string{"ac97", "ich9"},
		tpm:      "tpm-crb",
		smbios:   true, rom: true, efi: true, fwcfg: true, generation: true, cpusGrow: true,
		serial: libvirtxml.DomainSerialTarget{Type: "isa-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "isa-serial"}},
	},
	"arm64": {
		libvirt: "aarch64", alias: "virt", family: "virt-",
		videos: []string{"ramfb", "virtio"},
		panics: []string{"pvpanic"}, // the others are an ISA port and a register of Hyper-V
		tpm:    "tpm-tis",           // QEMU's virt board has no CRB interface
		smbios: true, rom: true, efi: true, fwcfg: true,
		usb: usbAlways, gic: "3",
		serial: libvirtxml.DomainSerialTarget{Type: "system-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "pl011"}},
	},
	"s390x": {
		libvirt: "s390x", alias: "s390-ccw-virtio", family: "s390-ccw-virtio-",
		ccw:      true,
		videos:   []string{"virtio"},
		watchdog: "diag288",
		cpusGrow: true,
		panic:    "s390",
		usb:      usbNever,
		serial:   libvirtxml.DomainSerialTarget{Type: "sclp-serial", Model: &libvirtxml.DomainSerialTargetModel{Name: "sclpconsole"}},
	},
}

// Board describes the machine type of an architecture, and the models of devices that guests on it can have. Nothing may write to its lists.
type Board struct {
	// Machine is the alias of the machine type, such as q35. Family begins its versions, such as pc-q35-.
	Machine, Family string
	// Videos, Panics and Sounds are models of devices. Watchdog is the only model, empty without one.
	Videos, Panics, Sounds []string
	Watchdog               string
	// Serial is the target of the serial port.
	Serial *libvirtxml.DomainSerialTarget
	// TPM and USB report whether guests can have such devices.
	TPM, USB bool
}

// BoardOf returns the board of an architecture, and the zero value for an unknown one.
func BoardOf(architecture string) Board {
	p := profiles[architecture]
	if p == nil {
		return Board{}
	}
	serial, zero := p.serial, uint(0)
	serial.Port = &zero
	return Board{Serial: &serial, Machine: p.alias, Family: p.family, Videos: p.videos, Panics: p.panics, Sounds: p.sounds, Watchdog: p.watchdog,
		TPM: p.tpm != "", USB: p.usb != usbNever}
}

// domainName returns the domain's name, which is unique on a host: 'virsh list' shows it.
func (g *guest) domainName() string { return identity.DomainName(g.VMI.Namespace, g.VMI.Name) }

func (g *guest) osType() *libvirtxml.DomainOSType {
	return &libvirtxml.DomainOSType{Arch: g.arch.libvirt, Machine: g.machineType(), Type: "hvm"}
}

// machineType returns a versioned machine.type, else the recorded machine, else what the host's table has for the alias, else the alias.
func (g *guest) machineType() string {
	if g.spec.Domain.Machine == nil || g.spec.Domain.Machine.Type == "" {
		g.addError(field.Required(g.path.Child("machine", "type"), ""))
		return ""
	}
	wanted := g.spec.Domain.Machine.Type
	if strings.HasPrefix(wanted, g.arch.family) {
		return wanted
	}
	if wanted != g.arch.alias {
		// A vendor's version such as pc-q35-rhel9.4.0 has the family's prefix. i440fx and microvm are other boards, with other buses than those
		// that Kiln assigns addresses on.
		err := field.NotSupported(g.path.Child("machine", "type"), wanted, []string{g.arch.alias, g.arch.family + "<version>"})
		g.addError(err)
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

// recordPath is the field of the record in the VMI's GuestHardware, for errors.
func (g *guest) recordPath() *field.Path {
	return field.NewPath("guesthardwares").Key(g.VMI.Name).Child("spec", "hardware")
}

// recordsThisBoard reports whether the record is of this architecture. It is false after the owner changed spec.architecture: then the recorded models belong
// to another board.
func (g *guest) recordsThisBoard() bool {
	machine := g.Frozen.Machine
	return machine == "" || machine == g.arch.alias || strings.HasPrefix(machine, g.arch.family)
}

// onReboot ends the guest with rebootPolicy 'Terminate', so that its VM makes a new VMI. libvirt: "Events configuration".
func (g *guest) onReboot() string {
	policy := g.spec.Domain.RebootPolicy
	switch {
	case policy == nil || *policy == v1.RebootPolicyReboot:
		return "restart"
	case *policy == v1.RebootPolicyTerminate:
		return "destroy"
	}
	g.addError(field.NotSupported(g.path.Child("rebootPolicy"), *policy, []v1.RebootPolicy{v1.RebootPolicyReboot, v1.RebootPolicyTerminate}))
	return ""
}

// virtioModel returns the model of virtio devices. Transitional devices also speak virtio 0.9, for old guests. libvirt: "Virtio transitional devices".
func (g *guest) virtioModel() string {
	switch {
	case g.arch.ccw:
		return "virtio"
	case ptr.Deref(g.dev.UseVirtioTransitional, false):
		return "virtio-transitional"
	}
	return "virtio-non-transitional"
}

// checkSupported reports whether the value of the field names below path is one of those that the architecture supports, and adds an error if it is not. The
// path is built only then.
func (g *guest) checkSupported(path *field.Path, value string, values []string, names ...string) bool {
	if slices.Contains(values, value) {
		return true
	}
	for _, name := range names {
		path = path.Child(name)
	}
	if len(values) == 0 {
		g.addError(field.Forbidden(path, fmt.Sprintf("architecture '%s' does not support it", g.spec.Architecture)))
		return false
	}
	g.addError(field.NotSupported(path, value, values))
	return false
}
