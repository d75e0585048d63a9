package frontend

import (
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.autoattachSerialConsole, autoattachGraphicsDevice, video, inputs and downwardMetrics, and the channel of the guest
// agent, which every guest has. Sockets and logs are the backend's.

// Names of the ports that agents in guests open.
const (
	guestAgentPort       = "org.qemu.guest_agent.0"
	downwardMetricsPort  = "org.github.vhostmd.1"
	guestAgentAlias      = "guest-agent"
	downwardMetricsAlias = "downward-metrics"
)

// unbound stands for a socket until the backend has one: it is what libvirt's types read where there is none.
func unbound() *libvirtxml.DomainChardevSource {
	return &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
}

func (g *guest) serials() []libvirtxml.DomainSerial {
	if !attached(g.dev.AutoattachSerialConsole) {
		return nil
	}
	target, zero := g.arch.serial, uint(0)
	target.Port = &zero
	return []libvirtxml.DomainSerial{{Source: unbound(), Target: &target, Alias: abi.Alias("serial0")}}
}

// consoles: libvirt shows the first serial port a second time as the console.
func (g *guest) consoles() []libvirtxml.DomainConsole {
	if !attached(g.dev.AutoattachSerialConsole) {
		return nil
	}
	zero := uint(0)
	return []libvirtxml.DomainConsole{{Source: unbound(), Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &zero}}}
}

func (g *guest) channels() []libvirtxml.DomainChannel {
	out := []libvirtxml.DomainChannel{channel(guestAgentPort, guestAgentAlias)}
	if g.dev.DownwardMetrics != nil {
		out = append(out, channel(downwardMetricsPort, downwardMetricsAlias))
	}
	return out
}

func channel(port, alias string) libvirtxml.DomainChannel {
	return libvirtxml.DomainChannel{
		Source: unbound(),
		Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: port}},
		Alias:  abi.Alias(alias),
	}
}

func (g *guest) hasGraphics() bool { return attached(g.dev.AutoattachGraphicsDevice) }

func (g *guest) graphics() []libvirtxml.DomainGraphic {
	if !g.hasGraphics() {
		return nil
	}
	return []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{}}}
}

// videoRAM in KiB, which libvirt gives to these models when nothing is said.
var videoRAM = map[string]uint{"vga": 16384, "bochs": 16384, "cirrus": 16384}

func (g *guest) videos() []libvirtxml.DomainVideo {
	if !g.hasGraphics() {
		if g.dev.Video != nil && g.dev.Video.Type != "" {
			g.fail(field.Forbidden(g.devPath.Child("video", "type"), "the guest has no graphics device: see autoattachGraphicsDevice"))
		}
		return nil
	}
	model := g.videoModel()
	out := libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: model, Heads: 1, VRam: videoRAM[model], Primary: "yes"}, Alias: abi.Alias("video")}
	if iommu := g.iommu(); iommu != "" && model == "virtio" {
		out.Driver = &libvirtxml.DomainVideoDriver{IOMMU: iommu}
	}
	return []libvirtxml.DomainVideo{out}
}

func (g *guest) videoModel() string {
	if v := g.dev.Video; v != nil && v.Type != "" {
		g.supported(g.devPath.Child("video", "type"), v.Type, g.arch.videos)
		return v.Type
	}
	f := g.spec.Domain.Firmware
	efi := f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil
	switch {
	case g.Frozen != nil && g.Frozen.Video != "" && g.recordsThisBoard():
		g.supported(g.recordPath().Child("video"), g.Frozen.Video, g.arch.videos)
		return g.Frozen.Video
	case efi && g.spec.Architecture == "amd64" && g.Defaults.EFIVideo != "":
		return g.Defaults.EFIVideo
	}
	return g.Defaults.Video[g.spec.Architecture]
}

// inputs are the user's, and what a screen needs to be of use where the machine has no PS/2 keyboard and mouse.
func (g *guest) inputs() []libvirtxml.DomainInput {
	var out []libvirtxml.DomainInput
	tablet := false
	for i := range g.dev.Inputs {
		in := &g.dev.Inputs[i]
		tablet = tablet || in.Type == v1.InputTypeTablet
		out = append(out, g.input(in, g.devPath.Child("inputs").Index(i)))
	}
	if g.spec.Architecture == "amd64" {
		// The chipset's own, which libvirt lists for every guest.
		return append(out, libvirtxml.DomainInput{Type: "mouse", Bus: "ps2", Alias: abi.Alias("ps2-mouse")},
			libvirtxml.DomainInput{Type: "keyboard", Bus: "ps2", Alias: abi.Alias("ps2-keyboard")})
	}
	if !g.hasGraphics() {
		return out
	}
	switch g.spec.Architecture {
	case "arm64":
		if !tablet {
			out = append(out, libvirtxml.DomainInput{Type: "tablet", Bus: "usb", Alias: abi.Alias("usb-tablet")})
		}
		out = append(out, libvirtxml.DomainInput{Type: "keyboard", Bus: "usb", Alias: abi.Alias("usb-keyboard")})
	case "s390x":
		out = append(out, libvirtxml.DomainInput{Type: "keyboard", Bus: "virtio", Alias: abi.Alias("virtio-keyboard")})
	}
	return out
}

func (g *guest) input(in *v1.Input, path *field.Path) libvirtxml.DomainInput {
	g.checkName(in.Name, path)
	g.pin("input."+in.Name, path, "")
	switch in.Type {
	case v1.InputTypeTablet, v1.InputTypeKeyboard:
	case "":
		g.fail(field.Required(path.Child("type"), ""))
	default:
		g.fail(field.NotSupported(path.Child("type"), in.Type, []v1.InputType{v1.InputTypeKeyboard, v1.InputTypeTablet}))
	}
	switch {
	case in.Bus == "":
		g.fail(field.Required(path.Child("bus"), ""))
	case in.Bus == v1.InputBusUSB && g.arch.usb == usbNever:
		g.fail(field.NotSupported(path.Child("bus"), in.Bus, []v1.InputBus{v1.InputBusVirtio}))
	case in.Bus != v1.InputBusUSB && in.Bus != v1.InputBusVirtio:
		g.fail(field.NotSupported(path.Child("bus"), in.Bus, []v1.InputBus{v1.InputBusUSB, v1.InputBusVirtio}))
	}
	out := libvirtxml.DomainInput{Type: string(in.Type), Bus: string(in.Bus), Alias: abi.Alias(in.Name)}
	if iommu := g.iommu(); iommu != "" && in.Bus == v1.InputBusVirtio {
		out.Driver = &libvirtxml.DomainInputDriver{IOMMU: iommu}
	}
	return out
}
