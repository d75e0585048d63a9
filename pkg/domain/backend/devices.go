package backend

import (
	"cmp"
	"path"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/identity"
	"libvirt.org/go/libvirtxml"
)

// Elements: sources of serial, console, channel; graphics/listen; tpm/backend; rng/backend and rate; memballoon/stats. Host profile: balloon, rng,
// graphics, serialLog, security.vtpmSecret.

func (h *host) serials() []libvirtxml.DomainSerial {
	out := slices.Clone(h.Frontend.Devices.Serials)
	for i := range out {
		out[i].Source = h.serialSource()
		out[i].Log = h.serialLog()
	}
	return out
}

// serialLog is a file in the administrator's folder, else the bound one.
func (h *host) serialLog() *libvirtxml.DomainChardevLog {
	p, file := h.policy.SerialLog, h.Bindings.SerialLog
	if p.Dir != "" {
		file = path.Join(p.Dir, identity.DomainName(h.VMI.Namespace, h.VMI.Name)+".log")
	}
	if file == "" {
		return nil
	}
	return &libvirtxml.DomainChardevLog{File: file, Append: onOff(p.Append == nil || *p.Append)}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
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
		if listen := h.policy.Graphics.Listen; listen != "" && listen != "Socket" {
			at := &libvirtxml.DomainGraphicListenerAddress{Address: listen}
			out[i].VNC = &libvirtxml.DomainGraphicVNC{Port: -1, AutoPort: "yes", Listeners: []libvirtxml.DomainGraphicListener{{Address: at}}}
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
		secret := h.policy.Security.VTPMSecret
		if h.ownTPMSecret() {
			secret = h.secretUUID(TPM)
		}
		if secret != "" {
			emulator.Encryption = &libvirtxml.DomainTPMBackendEncryption{Secret: secret}
		}
		if h.namesTPMState() {
			emulator.Source = &libvirtxml.DomainTPMBackendSource{Dir: &libvirtxml.DomainTPMBackendSourceDir{Path: h.Bindings.TPMState}}
		}
		out[i].Backend = &libvirtxml.DomainTPMBackend{Emulator: emulator}
	}
	return out
}

// namesTPMState reports whether the domain says where the state of its TPM lies. An older libvirt knows no other place than its own folder, by
// the UUID of the guest: then Documents.TPMState tells the host what that must lead to.
func (h *host) namesTPMState() bool {
	return h.Bindings.TPMState != "" && Offers(h.Host, tpmPlace)
}

// ownTPMSecret reports whether the host has a key for this guest's TPM. One that the administrator's profile names is for chosen guests
// and goes before.
func (h *host) ownTPMSecret() bool {
	return h.Bindings.TPMEncrypted && h.policy.Security.VTPMSecret == ""
}

func (h *host) rngs() []libvirtxml.DomainRNG {
	out := slices.Clone(h.Frontend.Devices.RNGs)
	p := h.policy.RNG
	for i := range out {
		out[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: cmp.Or(p.Source, "/dev/urandom")}}
		if p.BytesPerPeriod != nil {
			out[i].Rate = &libvirtxml.DomainRNGRate{Bytes: uint(bytes(p.BytesPerPeriod)), Period: number(p.PeriodMilliseconds)}
		}
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
	out, period := *front, uint(statsPeriod)
	if p := h.policy.Balloon.StatsPeriodSeconds; p != nil {
		period = uint(*p)
	}
	if period > 0 {
		out.Stats = &libvirtxml.DomainMemBalloonStats{Period: period}
	}
	return &out
}
