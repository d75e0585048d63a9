package frontend

import (
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/internal/vm"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.autoattachSerialConsole, autoattachGraphicsDevice, video, inputs and downwardMetrics, and the channel of the guest
// agent, which every VMI has. Sockets and logs are the backend's.
// KubeVirt: converter/compute/{console,graphics,input_device,channels}.go.
// libvirt: "Consoles, serial, parallel & channel devices", "Graphical framebuffers", "Video devices", "Input devices".

// Names of the virtio ports, by which the agents in the guest find them. They must not change.
const (
	guestAgentPort       = "org.qemu.guest_agent.0"
	downwardMetricsPort  = "org.github.vhostmd.1"
	downwardMetricsAlias = "downward-metrics"
)

// unbound stands for every socket until the backend has one: libvirtxml reads a pty if a character device has no source. Nothing may write to it.
var unbound = &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}

// renderSerials returns the serial port of the architecture, which 'virtctl console' opens.
func (g *guest) renderSerials() []libvirtxml.DomainSerial {
	if !ptr.Deref(g.dev.AutoattachSerialConsole, true) {
		return nil
	}
	target, zero := g.arch.serial, uint(0)
	target.Port = &zero
	return []libvirtxml.DomainSerial{{Source: unbound, Target: &target, Alias: abi.Alias("serial0")}}
}

// renderConsoles repeats the first serial port, because libvirt lists it a second time as the console.
func (g *guest) renderConsoles() []libvirtxml.DomainConsole {
	if !ptr.Deref(g.dev.AutoattachSerialConsole, true) {
		return nil
	}
	zero := uint(0)
	return []libvirtxml.DomainConsole{{Source: unbound, Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: &zero}}}
}

// renderChannels returns the port of the guest agent, which every VMI has, as in KubeVirt, and the port of downwardMetrics if the spec has it.
func (g *guest) renderChannels() []libvirtxml.DomainChannel {
	var out []libvirtxml.DomainChannel
	if !record.Omits(g.Frozen, record.OmittedGuestAgent) || vm.NeedsGuestAgent(g.spec) {
		out = append(out, newChannel(guestAgentPort, abi.GuestAgent))
	}
	if g.dev.DownwardMetrics != nil {
		out = append(out, newChannel(downwardMetricsPort, downwardMetricsAlias))
	}
	return out
}

func newChannel(port, alias string) libvirtxml.DomainChannel {
	return libvirtxml.DomainChannel{
		Source: unbound,
		Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: port}},
		Alias:  abi.Alias(alias),
	}
}

func (g *guest) hasGraphics() bool { return ptr.Deref(g.dev.AutoattachGraphicsDevice, true) }

// renderGraphics returns only VNC, as KubeVirt does. The backend adds the socket.
func (g *guest) renderGraphics() []libvirtxml.DomainGraphic {
	if !g.hasGraphics() {
		return nil
	}
	return []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{}}}
}

// videoRAM is libvirt's default for these models, in KiB. It is written, because the guest sees it.
var videoRAM = map[string]uint{"vga": 16384, "bochs": 16384, "cirrus": 16384}

func (g *guest) renderVideos() []libvirtxml.DomainVideo {
	if !g.hasGraphics() {
		if g.dev.Video != nil && g.dev.Video.Type != "" {
			g.addError(field.Forbidden(g.devPath.Child("video", "type"), "the guest has no graphics device: see autoattachGraphicsDevice"))
		}
		return nil
	}
	model := g.videoModel()
	out := libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: model, Heads: 1, VRam: videoRAM[model], Primary: "yes"}, Alias: abi.Alias("video")}
	if iommu := g.virtioIOMMU(); iommu != "" && model == "virtio" {
		out.Driver = &libvirtxml.DomainVideoDriver{IOMMU: iommu}
	}
	return []libvirtxml.DomainVideo{out}
}

// videoModel returns video.type, else the recorded model, else the cluster's default. KubeVirt reads its default at each start, so that a changed cluster
// setting changes the guest's video device.
func (g *guest) videoModel() string {
	if v := g.dev.Video; v != nil && v.Type != "" {
		g.checkSupported(g.devPath, v.Type, g.arch.videos, "video", "type")
		return v.Type
	}
	f := g.spec.Domain.Firmware
	efi := f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil
	switch {
	case g.Frozen != nil && g.Frozen.Video != "" && g.recordsThisBoard():
		g.checkSupported(g.recordPath(), g.Frozen.Video, g.arch.videos, "video")
		return g.Frozen.Video
	case efi && g.spec.Architecture == "amd64" && g.Defaults.EFIVideo != "":
		return g.Defaults.EFIVideo
	}
	return g.Defaults.Video[g.spec.Architecture]
}

// renderInputs returns the inputs of the spec and of the architecture. As in KubeVirt, VMIs of arm64 and s390x with graphics get a keyboard, and on arm64 a
// tablet: their boards have no PS/2 devices.
func (g *guest) renderInputs() []libvirtxml.DomainInput {
	var out []libvirtxml.DomainInput
	tablet := false
	for i := range g.dev.Inputs {
		in := &g.dev.Inputs[i]
		tablet = tablet || in.Type == v1.InputTypeTablet
		out = append(out, g.renderInput(in, g.devPath.Child("inputs").Index(i)))
	}
	if g.spec.Architecture == "amd64" {
		// The PS/2 devices of the chipset, which libvirt lists in every domain of x86.
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

func (g *guest) renderInput(in *v1.Input, path *field.Path) libvirtxml.DomainInput {
	g.checkName(in.Name, path)
	g.addPin("input", in.Name, pin{path: path})
	switch in.Type {
	case v1.InputTypeTablet, v1.InputTypeKeyboard:
	case "":
		g.addError(field.Required(path.Child("type"), ""))
	default:
		g.addError(field.NotSupported(path.Child("type"), in.Type, []v1.InputType{v1.InputTypeKeyboard, v1.InputTypeTablet}))
	}
	switch {
	case in.Bus == "":
		g.addError(field.Required(path.Child("bus"), ""))
	case in.Bus == v1.InputBusUSB && g.arch.usb == usbNever:
		g.addError(field.NotSupported(path.Child("bus"), in.Bus, []v1.InputBus{v1.InputBusVirtio}))
	case in.Bus != v1.InputBusUSB && in.Bus != v1.InputBusVirtio:
		g.addError(field.NotSupported(path.Child("bus"), in.Bus, []v1.InputBus{v1.InputBusUSB, v1.InputBusVirtio}))
	}
	out := libvirtxml.DomainInput{Type: string(in.Type), Bus: string(in.Bus), Alias: abi.Alias(in.Name)}
	if iommu := g.virtioIOMMU(); iommu != "" && in.Bus == v1.InputBusVirtio {
		out.Driver = &libvirtxml.DomainInputDriver{IOMMU: iommu}
	}
	return out
}
