// Package backend completes a frontend with the host side of one start: emulator, firmware files, sources, tuning: stage 3. It sets only what
// the guest does not see, which Render checks, and never alters the frontend to fit a host. So a VMI has the same hardware on each host.
//
// Each file names its elements, the fields of the API and of HostProfile that it reads, the part of KubeVirt that it reproduces (by its path
// below pkg/virt-launcher/virtwrap) and the section of libvirt's page "Domain XML format" (formatdomain). Unlike KubeVirt's converter, nothing
// here reads the host: facts and bindings come as values, and the launcher gathers them before.
package backend

import (
	"fmt"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Input is everything that stage 3 depends on. Render does not change it.
type Input struct {
	// Frontend is the domain of stage 2, complete with addresses.
	Frontend *libvirtxml.Domain
	// VMI has the API's own backend fields: cache, io, IO threads, dedicated CPUs, huge pages.
	VMI *v1.VirtualMachineInstance
	// Host has the facts of the host, Bindings its resources for this start.
	Host     Capabilities
	Bindings Bindings
	// Policy is what the HostProfiles that select the VMI and the host set, as Policy merges them.
	Policy v1alpha1.HostPolicy
}

// Documents are the libvirt documents of one start.
type Documents struct {
	Domain *libvirtxml.Domain
	// Secrets, Filters and NodeDevices must exist before the domain starts, in this order, and are removed after it ends.
	Secrets     []Secret
	Filters     []libvirtxml.NWFilter
	NodeDevices []libvirtxml.NodeDevice
	// TPMState is the directory of the TPM's state for a libvirt before 10.10, which does not read it from the domain. Empty if the domain names it.
	TPMState string
}

// Render returns the documents, or an error for every missing binding and capability at the field that needs it: below spec, or below hostProfile.
// It is a pure function: equal input gives equal documents, so that a start that is repeated replaces what the first one made.
func Render(in Input) (Documents, field.ErrorList) {
	h := &host{Input: in, spec: &in.VMI.Spec, domain: domainPath}
	h.policy, h.errs = toLibvirt(in.Policy)
	h.plan = h.planThreads()
	h.applyPathTemplates()
	h.checkVersions()
	h.checkCouplings()
	h.pins = h.choosePinning()
	front := in.Frontend
	dom := *front
	dom.Type = h.virtType()
	dom.OS = h.completeOS()
	dom.SysInfo = h.completeSysInfo()
	dom.OnCrash = h.onCrash()
	dom.Memory = h.completeMemory()
	dom.MemoryBacking = h.memoryBacking()
	dom.MemoryTune = h.memoryTune()
	dom.BlockIOTune = h.blockIOTune()
	dom.VCPU = h.completeVCPU()
	dom.IOThreads = h.ioThreads()
	dom.IOThreadIDs = h.ioThreadIDs()
	dom.CPUTune = h.cpuTune()
	dom.NUMATune = h.numaTune()
	dom.Resource = h.resourcePartition()
	dom.SecLabel = h.secLabels()
	devices := *front.Devices
	devices.Emulator = h.emulatorPath()
	devices.Disks = h.completeDisks()
	devices.Filesystems = h.completeFilesystems()
	devices.Interfaces = h.completeInterfaces()
	devices.Hostdevs = h.completeHostdevs()
	devices.Serials, devices.Consoles = h.completeSerials(), h.completeConsoles()
	devices.Channels = h.completeChannels()
	devices.Graphics = h.completeGraphics()
	devices.TPMs = h.completeTPMs()
	devices.RNGs = h.completeRNGs()
	devices.MemBalloon = h.completeBalloon()
	dom.Devices = &devices
	if len(h.errs) > 0 {
		return Documents{}, h.errs
	}
	if err := checkUnaltered(front, &dom); err != nil {
		return Documents{}, field.ErrorList{field.InternalError(h.domain, err)}
	}
	documents := Documents{Domain: &dom, Secrets: h.secretDocuments(), Filters: h.networkFilters(),
		NodeDevices: append(h.mediatedDevices(), h.adapterDevices()...)}
	if len(front.Devices.TPMs) > 0 && !h.namesTPMState() {
		documents.TPMState = h.Bindings.TPMState
	}
	return documents, nil
}

// checkUnaltered returns an error if the guest would see anything but the frontend. Such an error is a bug of this package.
func checkUnaltered(front, complete *libvirtxml.Domain) error {
	if abi.Same(front, complete) {
		return nil
	}
	return fmt.Errorf("stage 3 altered what the guest sees: %q", abi.Changes(front, complete))
}

// host is the input of the value functions. They write to it through fail only; Render and couplings fill it before.
type host struct {
	Input
	spec     *v1.VirtualMachineInstanceSpec
	policy   v1alpha1.HostPolicy // with libvirt's values; no part is nil
	domain   *field.Path         // spec.domain
	plan     threadPlan
	nicKinds []string // the kind of the binding of each interface of the frontend
	pins     *pinning // nil without dedicated CPUs
	errs     field.ErrorList
}

func (h *host) addError(err *field.Error) { h.errs = append(h.errs, err) }

var domainPath = field.NewPath("spec", "domain")

// nodeName names the host in messages.
func (h *host) nodeName() string {
	if h.Host.NodeName == "" {
		return "this host"
	}
	return "host '" + h.Host.NodeName + "'"
}
