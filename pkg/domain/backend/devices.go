package backend

import (
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"libvirt.org/go/libvirtxml"
)

// Elements: sources of serial, console, channel; graphics/listen; tpm/backend; rng/backend; memballoon/stats.

func (h *host) serials() []libvirtxml.DomainSerial {
	out := slices.Clone(h.Frontend.Devices.Serials)
	for i := range out {
		out[i].Source = h.serialSource()
		if h.Bindings.SerialLog != "" {
			out[i].Log = &libvirtxml.DomainChardevLog{File: h.Bindings.SerialLog, Append: "on"}
		}
	}
	return out
}

// serialSource is a socket where one is bound, else a terminal that libvirt makes.
func (h *host) serialSource() *libvirtxml.DomainChardevSource {
	if h.Bindings.Serial == "" {
		return &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	}
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: h.Bindings.Serial}}
}

func (h *host) consoles() []libvirtxml.DomainConsole {
	out := slices.Clone(h.Frontend.Devices.Consoles)
	for i := range out {
		out[i].Source = h.serialSource()
	}
	return out
}

// channels have sockets; one that is not bound is put by libvirt where its own tools find it.
func (h *host) channels() []libvirtxml.DomainChannel {
	out := slices.Clone(h.Frontend.Devices.Channels)
	for i := range out {
		path := h.Bindings.Channels[abi.Name("channel", out[i].Alias)]
		out[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
	}
	return out
}

func (h *host) graphics() []libvirtxml.DomainGraphic {
	out := slices.Clone(h.Frontend.Devices.Graphics)
	for i := range out {
		if out[i].VNC == nil {
			continue
		}
		socket := &libvirtxml.DomainGraphicListenerSocket{Socket: h.Bindings.VNC}
		out[i].VNC = &libvirtxml.DomainGraphicVNC{Socket: h.Bindings.VNC, Listeners: []libvirtxml.DomainGraphicListener{{Socket: socket}}}
	}
	return out
}

func (h *host) tpms() []libvirtxml.DomainTPM {
	out := slices.Clone(h.Frontend.Devices.TPMs)
	for i := range out {
		emulator := &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}
		if spec := h.spec.Domain.Devices.TPM; spec != nil && spec.Persistent != nil && *spec.Persistent {
			emulator.PersistentState = "yes"
		}
		out[i].Backend = &libvirtxml.DomainTPMBackend{Emulator: emulator}
	}
	return out
}

func (h *host) rngs() []libvirtxml.DomainRNG {
	out := slices.Clone(h.Frontend.Devices.RNGs)
	for i := range out {
		out[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}}
	}
	return out
}

// statsPeriod is how often the balloon asks the guest for its memory statistics, in seconds.
const statsPeriod = 10

func (h *host) balloon() *libvirtxml.DomainMemBalloon {
	front := h.Frontend.Devices.MemBalloon
	if front == nil || front.Model == "none" {
		return front
	}
	out := *front
	out.Stats = &libvirtxml.DomainMemBalloonStats{Period: statsPeriod}
	return &out
}
