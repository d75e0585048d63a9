package backend

import (
	"cmp"
	"path"
	"slices"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/identity"
	"libvirt.org/go/libvirtxml"
)

// Elements: sources of serial, console, channel; graphics/listen; tpm/backend; rng/backend and rate; memballoon/stats. Host profile: balloon, rng,
// graphics, serialLog, security.vtpmSecret.
// KubeVirt: converter/compute/{console,channels,graphics,tpm,rng,balloon}.go. libvirt: the sections of those devices.

func (h *host) completeSerials() []libvirtxml.DomainSerial {
	out := slices.Clone(h.Frontend.Devices.Serials)
	for i := range out {
		out[i].Source = h.serialSource()
		out[i].Log = h.serialLog()
	}
	return out
}

// serialLog is a file in hostProfile.serialLog.dir, else the bound one. It is appended to, as in KubeVirt.
func (h *host) serialLog() *libvirtxml.DomainChardevLog {
	p, file := h.policy.SerialLog, h.Bindings.SerialLog
	if p.Dir != "" {
		file = path.Join(p.Dir, identity.DomainName(h.VMI.Namespace, h.VMI.Name)+".log")
	}
	if file == "" {
		return nil
	}
	return &libvirtxml.DomainChardevLog{File: file, Append: attr.OnOff(p.Append == nil || *p.Append)}
}

// serialSource is the bound socket, else a pty, which libvirt makes.
func (h *host) serialSource() *libvirtxml.DomainChardevSource {
	if h.Bindings.Serial == "" {
		return &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	}
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: h.Bindings.Serial}}
}

func (h *host) completeConsoles() []libvirtxml.DomainConsole {
	out := slices.Clone(h.Frontend.Devices.Consoles)
	for i := range out {
		out[i].Source = h.serialSource()
	}
	return out
}

// completeChannels adds the sockets of the channels. libvirt chooses the path of a socket that is not bound, as KubeVirt lets it for the guest agent.
func (h *host) completeChannels() []libvirtxml.DomainChannel {
	out := slices.Clone(h.Frontend.Devices.Channels)
	for i := range out {
		path := h.Bindings.Channels[abi.Name("channel", out[i].Alias)]
		out[i].Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
	}
	return out
}

// completeGraphics adds a socket, as in KubeVirt, or the address of hostProfile.graphics.listen, where libvirt chooses the port.
func (h *host) completeGraphics() []libvirtxml.DomainGraphic {
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

// completeTPMs adds swtpm's version and state. The attribute persistent keeps the state after the domain is undefined.
func (h *host) completeTPMs() []libvirtxml.DomainTPM {
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

// namesTPMState reports whether the domain names the directory of the TPM's state. libvirt before 10.10 has one directory for all states and finds
// a state by the domain's UUID; Documents.TPMState then names the directory that the launcher links there.
func (h *host) namesTPMState() bool {
	return h.Bindings.TPMState != "" && Offers(h.Host, tpmPlace)
}

// ownTPMSecret reports whether the host has a passphrase for this VMI's TPM. The secret of hostProfile.security.vtpmSecret comes before it.
func (h *host) ownTPMSecret() bool {
	return h.Bindings.TPMEncrypted && h.policy.Security.VTPMSecret == ""
}

// completeRNGs adds the source of entropy: /dev/urandom, as in KubeVirt, unless hostProfile.rng.source is set.
func (h *host) completeRNGs() []libvirtxml.DomainRNG {
	out := slices.Clone(h.Frontend.Devices.RNGs)
	p := h.policy.RNG
	for i := range out {
		out[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: cmp.Or(p.Source, "/dev/urandom")}}
		if p.BytesPerPeriod != nil {
			out[i].Rate = &libvirtxml.DomainRNGRate{Bytes: uint(bytesOf(p.BytesPerPeriod)), Period: valueOr0(p.PeriodMilliseconds)}
		}
	}
	return out
}

// statsPeriod is how often the balloon asks the guest for its memory statistics, in seconds. It is KubeVirt's default.
const statsPeriod = 10

func (h *host) completeBalloon() *libvirtxml.DomainMemBalloon {
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
