package frontend

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/internal/attr"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Owns devices.watchdog, tpm, rng, autoattachMemBalloon, autoattachVSOCK, panicDevices, sound and clientPassthrough.
// KubeVirt: converter/compute/{watchdog,tpm,rng,balloon,vsock,panic_devices,sound,usb_redir}.go. libvirt: the sections of those devices.

func (g *guest) renderWatchdogs() []libvirtxml.DomainWatchdog {
	w := g.dev.Watchdog
	if w == nil {
		return nil
	}
	path := g.devPath.Child("watchdog")
	g.checkName(w.Name, path)
	g.addPin("watchdog", w.Name, pin{path: path})
	var model string
	var action v1.WatchdogAction
	switch {
	case w.I6300ESB != nil:
		model, action = "i6300esb", w.I6300ESB.Action
	case w.Diag288 != nil:
		model, action = "diag288", w.Diag288.Action
	default:
		wanted := "i6300esb"
		if g.arch.ccw {
			wanted = "diag288"
		}
		g.addError(field.Required(path.Child(wanted), ""))
		return nil
	}
	if model != g.arch.watchdog {
		g.addError(field.Forbidden(path.Child(model), "architecture '"+g.spec.Architecture+"' has no such watchdog"))
	}
	if action == "" {
		action = v1.WatchdogActionReset // the API's default
	}
	return []libvirtxml.DomainWatchdog{{Model: model, Action: string(action), Alias: abi.Alias(w.Name)}}
}

// renderTPMs returns the TPM, with one model for each architecture. KubeVirt renders tpm-crb with tpm.persistent and tpm-tis without
// (converter/compute/tpm.go), so that keeping the state changes the guest's hardware.
func (g *guest) renderTPMs() []libvirtxml.DomainTPM {
	t := g.dev.TPM
	if t == nil || (t.Enabled != nil && !*t.Enabled) {
		return nil
	}
	if g.arch.tpm == "" {
		g.addError(field.Forbidden(g.devPath.Child("tpm"), "architecture '"+g.spec.Architecture+"' has no TPM"))
		return nil
	}
	return []libvirtxml.DomainTPM{{Model: g.arch.tpm, Alias: abi.Alias("tpm")}}
}

// renderRNGs returns one device. The backend adds the source of entropy and its rate.
func (g *guest) renderRNGs() []libvirtxml.DomainRNG {
	if g.dev.Rng == nil {
		return nil
	}
	out := libvirtxml.DomainRNG{Model: g.virtioModel(), Alias: abi.Alias("rng")}
	if iommu := g.virtioIOMMU(); iommu != "" {
		out.Driver = &libvirtxml.DomainRNGDriver{IOMMU: iommu}
	}
	return []libvirtxml.DomainRNG{out}
}

// renderBalloon returns model 'none' with autoattachMemBalloon 'false', because libvirt adds a balloon if the element is missing. Free page reporting is a
// feature of the virtio device, so the guest sees it.
func (g *guest) renderBalloon() *libvirtxml.DomainMemBalloon {
	if !ptr.Deref(g.dev.AutoattachMemBalloon, true) {
		return &libvirtxml.DomainMemBalloon{Model: "none"}
	}
	out := &libvirtxml.DomainMemBalloon{Model: g.virtioModel(), Alias: abi.Alias("balloon")}
	if !record.Omits(g.Frozen, record.OmittedFreePageReporting) {
		out.FreePageReporting = attr.OnOff(g.reportsFreePages())
	}
	if g.deflatesOnOOM() {
		out.AutoDeflate = "on" // libvirt does not store 'off', the default
	}
	if iommu := g.virtioIOMMU(); iommu != "" {
		out.Driver = &libvirtxml.DomainMemBalloonDriver{IOMMU: iommu}
	}
	return out
}

// deflatesOnOOM is as recorded if the guest had a balloon. It is a feature of the virtio device, as free page reporting is.
func (g *guest) deflatesOnOOM() bool {
	if g.Frozen != nil {
		if _, had := g.Frozen.Devices[record.Key("memballoon", "balloon")]; had {
			return g.Frozen.DeflateOnOOM
		}
	}
	return g.Defaults.DeflateOnOOM
}

// reportsFreePages follows KubeVirt: it is off for dedicated CPUs and for huge pages, whose memory the host does not get back, and with the
// annotation.
func (g *guest) reportsFreePages() bool {
	c, m := g.spec.Domain.CPU, g.spec.Domain.Memory
	dedicated := c != nil && c.DedicatedCPUPlacement
	huge := m != nil && m.Hugepages != nil
	return !dedicated && !huge && g.VMI.Annotations[v1.FreePageReportingDisabledAnnotation] != "true"
}

// renderVsock takes the context identifier from status.VSOCKCID, else from the record, else it takes 31 bits of the digest of the UUID: two guests of a host
// collide with a chance of one in two thousand million.
func (g *guest) renderVsock() *libvirtxml.DomainVSock {
	if !ptr.Deref(g.dev.AutoattachVSOCK, false) {
		return nil
	}
	model := "virtio-non-transitional" // virtio 0.9 has no vsock, so useVirtioTransitional does not apply
	if g.arch.ccw {
		model = "virtio"
	}
	out := &libvirtxml.DomainVSock{Model: model, Alias: abi.Alias("vsock"), CID: &libvirtxml.DomainVSockCID{Auto: "no", Address: g.contextID()}}
	if iommu := g.virtioIOMMU(); iommu != "" {
		out.Driver = &libvirtxml.DomainVSockDriver{IOMMU: iommu}
	}
	return out
}

// contextID returns the recorded identifier. KubeVirt's controller allocates it in memory (virt-controller/watch/vsock), so that it may be another one at the
// next start.
func (g *guest) contextID() string {
	switch cid := g.VMI.Status.VSOCKCID; {
	case cid != nil:
		return strconv.FormatUint(uint64(*cid), 10)
	case g.Frozen != nil && g.Frozen.VSOCK != "":
		return g.Frozen.VSOCK
	}
	const firstGuest = 3 // 0 to 2 are reserved: hypervisor, loopback and host
	sum := sha256.Sum256([]byte(g.knownUUID()))
	return strconv.FormatUint(uint64(binary.BigEndian.Uint32(sum[:])>>1)+firstGuest, 10)
}

// renderPanics returns the panic devices. There may be several models, each once. As in KubeVirt, s390x has no panicDevices; its machine has a panic device of
// its own.
func (g *guest) renderPanics() []libvirtxml.DomainPanic {
	var out []libvirtxml.DomainPanic
	if g.arch.panic != "" {
		out = append(out, libvirtxml.DomainPanic{Model: g.arch.panic, Alias: abi.Alias("panic-" + g.arch.panic)})
	}
	for i, p := range g.dev.PanicDevices {
		path := g.devPath.Child("panicDevices").Index(i)
		model := ""
		switch {
		case p.Model != nil:
			model = string(*p.Model)
		case len(g.arch.panics) > 0:
			model = g.arch.panics[0] // libvirt's default for the architecture
		}
		name := "panic-" + model
		g.addPin("panic", name, pin{path: path})
		switch {
		case slices.ContainsFunc(out, func(p libvirtxml.DomainPanic) bool { return p.Model == model }):
			g.addError(field.Duplicate(path.Child("model"), model))
		case g.checkSupported(path, model, g.arch.panics, "model"):
			out = append(out, libvirtxml.DomainPanic{Model: model, Alias: abi.Alias(name)})
		}
	}
	return out
}

func (g *guest) renderSounds() []libvirtxml.DomainSound {
	s := g.dev.Sound
	if s == nil {
		return nil
	}
	path := g.devPath.Child("sound")
	g.checkName(s.Name, path)
	g.addPin("sound", s.Name, pin{path: path})
	model := s.Model
	if model == "" {
		model = "ich9" // the API's default
	}
	if !g.checkSupported(path, model, g.arch.sounds, "model") {
		return nil
	}
	return []libvirtxml.DomainSound{{Model: model, Alias: abi.Alias(s.Name)}}
}

// renderRedirDevs returns the USB slots that 'virtctl usbredir' connects to: always as many as the API allows, four, as in KubeVirt.
func (g *guest) renderRedirDevs() []libvirtxml.DomainRedirDev {
	if g.dev.ClientPassthrough == nil {
		return nil
	}
	if g.arch.usb == usbNever {
		g.addError(field.Forbidden(g.devPath.Child("clientPassthrough"), "architecture '"+g.spec.Architecture+"' has no USB"))
		return nil
	}
	var out []libvirtxml.DomainRedirDev
	for i := range v1.UsbClientPassthroughMaxNumberOf {
		if name := "usbredir-" + strconv.Itoa(i); !record.Omits(g.Frozen, record.Key("redirdev", name)) {
			out = append(out, libvirtxml.DomainRedirDev{Source: unbound, Bus: "usb", Alias: abi.Alias(name)})
		}
	}
	return out
}
