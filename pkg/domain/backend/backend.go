// Package backend completes a frontend with the host side of one start: emulator, firmware files, sources, tuning. It sets only what the
// guest does not see, which Render checks, and never alters the frontend to fit a host.
package backend

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Input is everything that stage 3 depends on. Nothing of it is modified.
type Input struct {
	Frontend *libvirtxml.Domain
	// VMI carries the API's own backend fields: cache, io, IO threads, dedicated CPUs, huge pages.
	VMI      *v1.VirtualMachineInstance
	Host     Capabilities
	Bindings Bindings
	// Policy is the administrator's, of the profiles that select the guest and the host.
	Policy v1alpha1.HostPolicy
}

// Documents are what a start needs of libvirt.
type Documents struct {
	Domain *libvirtxml.Domain
	// What must be there before the domain, in this order, and be removed after it.
	Secrets     []Secret
	Filters     []libvirtxml.NWFilter
	NodeDevices []libvirtxml.NodeDevice
	// TPMState is the directory of the TPM's state, for a libvirt too old to read it from the domain. Empty when the domain names it.
	TPMState string
}

// Render returns the documents, or an error for every missing binding and capability at the field that needs it.
func Render(in Input) (Documents, field.ErrorList) {
	h := &host{Input: in, spec: &in.VMI.Spec, domain: field.NewPath("spec", "domain")}
	h.policy, h.errs = complete(in.Policy)
	h.plan = h.planThreads()
	h.paths()
	h.outdated()
	h.couplings()
	h.pins = h.pinning()
	front := in.Frontend
	dom := *front
	dom.Type = h.virtType()
	dom.OS = h.os()
	dom.SysInfo = h.sysinfo()
	dom.OnCrash = h.onCrash()
	dom.Memory = h.memory()
	dom.MemoryBacking = h.memoryBacking()
	dom.MemoryTune = h.memoryTune()
	dom.BlockIOTune = h.blockIOTune()
	dom.VCPU = h.vcpu()
	dom.IOThreads = h.ioThreads()
	dom.IOThreadIDs = h.ioThreadIDs()
	dom.CPUTune = h.cpuTune()
	dom.NUMATune = h.numaTune()
	dom.Resource = h.resource()
	dom.SecLabel = h.secLabels()
	devices := *front.Devices
	devices.Emulator = h.emulator()
	devices.Disks = h.disks()
	devices.Filesystems = h.filesystems()
	devices.Interfaces = h.interfaces()
	devices.Hostdevs = h.hostdevs()
	devices.Serials, devices.Consoles = h.serials(), h.consoles()
	devices.Channels = h.channels()
	devices.Graphics = h.graphics()
	devices.TPMs = h.tpms()
	devices.RNGs = h.rngs()
	devices.MemBalloon = h.balloon()
	dom.Devices = &devices
	if len(h.errs) > 0 {
		return Documents{}, h.errs
	}
	if err := unaltered(front, &dom); err != nil {
		return Documents{}, field.ErrorList{field.InternalError(h.domain, err)}
	}
	documents := Documents{Domain: &dom, Secrets: h.secrets(), Filters: h.filters(), NodeDevices: append(h.mediatedDevices(), h.adapters()...)}
	if len(front.Devices.TPMs) > 0 && !h.namesTPMState() {
		documents.TPMState = h.Bindings.TPMState
	}
	return documents, nil
}

// unaltered returns an error when the guest would see anything but the frontend.
func unaltered(front, complete *libvirtxml.Domain) error {
	if abi.Same(front, complete) {
		return nil
	}
	return fmt.Errorf("stage 3 altered what the guest sees: %q", abi.Changes(front, complete))
}

// host is the input of the value functions. They write to it through fail only; Render and couplings fill it before.
type host struct {
	Input
	spec     *v1.VirtualMachineInstanceSpec
	policy   v1alpha1.HostPolicy // in libvirt's words, with a struct for each part
	domain   *field.Path         // spec.domain
	plan     threadPlan
	nicKinds []string // how each interface of the frontend is bound
	pins     *pinning // nil unless the guest has CPUs of its own
	errs     field.ErrorList
}

func (h *host) fail(err *field.Error) { h.errs = append(h.errs, err) }

// node names the host in messages.
func (h *host) node() string {
	if h.Host.NodeName == "" {
		return "this host"
	}
	return "host '" + h.Host.NodeName + "'"
}
