// Package render runs stages 2 and 3: it makes the documents that libvirt starts from an explicit VMI and a host. Capture does the reverse: it makes a hardware
// record from a running domain.
package render

import (
	"slices"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/config"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/domain/frontend"
	"github.com/kilnvm/kiln/pkg/identity"
	"github.com/kilnvm/kiln/pkg/record"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Machine is the input of stages 2 and 3.
type Machine struct {
	// VMI must be explicit. A VMI without identity gets one from its VM's seed, else from its UID.
	VMI      *v1.VirtualMachineInstance
	Defaults config.FrontendDefaults
	// Frozen is the record of an earlier boot, nil at the first boot.
	Frozen   *record.Record
	Host     backend.Capabilities
	Bindings backend.Bindings
	// Policy is the result of the function Policy: the merged HostProfiles that select the VMI and the host.
	Policy v1alpha1.HostPolicy
}

// Policy merges the HostProfiles of a cluster that select the VMI and the host. Errors are fields that two profiles of one priority set
// differently; when the VMI cannot be rendered on any host, its errors are returned instead.
func Policy(m Machine, profiles []v1alpha1.HostProfile) (v1alpha1.HostPolicy, field.ErrorList) {
	policy, errs := backend.Policy(profiles, m.VMI, m.Host)
	if len(errs) > 0 {
		if _, wrong := Frontend(m); len(wrong) > 0 {
			return policy, wrong
		}
	}
	return policy, errs
}

// UnderProfiles runs stages 2 and 3 with the merged HostProfiles of a cluster. It returns the errors of Policy or of Domain.
func UnderProfiles(m Machine, profiles []v1alpha1.HostProfile) (Result, field.ErrorList) {
	var errs field.ErrorList
	if m.Policy, errs = Policy(m, profiles); len(errs) > 0 {
		return Result{}, errs
	}
	return Domain(m)
}

// Result is the result of stages 2 and 3.
type Result struct {
	Frontend *libvirtxml.Domain
	// Record must be passed to later boots as Frozen.
	Record    record.Record
	Documents backend.Documents
}

// Frontend runs only stage 2. It returns all that the guest sees, as a partial libvirt domain. Errors name the fields of the VMI that are not explicit
// (Required) or cannot be rendered.
func Frontend(m Machine) (*libvirtxml.Domain, field.ErrorList) {
	return renderFrontend(m, withIdentity(m.VMI, m.Frozen), Facts(m))
}

// withIdentity returns the VMI with an identity. It is a copy if admission could not give the VMI all of its identity. The controller gives an identity only to
// VMIs of VMs, and does not know what admission added, such as the default interface. The record comes before the seed, which for a VMI without a VM is its
// UID: a VMI that is restored from a backup has another UID and must keep the UUID that its licences know.
func withIdentity(given *v1.VirtualMachineInstance, frozen *record.Record) *v1.VirtualMachineInstance {
	if identity.Complete(given) {
		return given
	}
	vmi := copyForIdentity(given)
	if frozen != nil {
		identity.Recall(vmi, frozen)
	}
	identity.Fill(vmi, identity.Seed(vmi))
	return vmi
}

func renderFrontend(m Machine, vmi *v1.VirtualMachineInstance, facts frontend.Facts) (*libvirtxml.Domain, field.ErrorList) {
	return frontend.Render(frontend.Input{VMI: vmi, Defaults: m.Defaults, Frozen: m.Frozen, Facts: facts, Generation: identity.GenerationID(vmi)})
}

// Domain runs stages 2 and 3. It returns the errors of Frontend, or errors that name what the VMI requires and the host or its bindings do not have.
func Domain(m Machine) (Result, field.ErrorList) {
	vmi := withIdentity(m.VMI, m.Frozen)
	facts := Facts(m)
	front, errs := renderFrontend(m, vmi, facts)
	if len(errs) > 0 {
		return Result{}, errs
	}
	documents, errs := Documents(m, front)
	if len(errs) > 0 {
		return Result{}, errs
	}
	return Result{Frontend: front, Record: m.freezeRecord(vmi, front, facts), Documents: documents}, nil
}

// Hardware is the result of stage 2 if only facts of the host are known.
type Hardware struct {
	Frontend *libvirtxml.Domain
	// Record must be passed to later boots as Frozen.
	Record record.Record
}

// FromFacts runs stage 2 with the facts that another process has read from the host. It does not read m.Host, m.Bindings and m.Policy.
func FromFacts(m Machine, facts frontend.Facts) (Hardware, field.ErrorList) {
	vmi := withIdentity(m.VMI, m.Frozen)
	front, errs := renderFrontend(m, vmi, facts)
	if len(errs) > 0 {
		return Hardware{}, errs
	}
	return Hardware{Frontend: front, Record: m.freezeRecord(vmi, front, facts)}, nil
}

// Documents runs stage 3 over a frontend, which another process may have made. It does not read m.Defaults and m.Frozen.
func Documents(m Machine, front *libvirtxml.Domain) (backend.Documents, field.ErrorList) {
	return backend.Render(backend.Input{Frontend: front, VMI: m.VMI, Host: m.Host, Bindings: m.Bindings, Policy: m.Policy})
}

// freezeRecord returns the record of a frontend. vmi is the machine's VMI with its identity.
func (m Machine) freezeRecord(vmi *v1.VirtualMachineInstance, front *libvirtxml.Domain, facts frontend.Facts) record.Record {
	frozen := abi.Freeze(front, m.defaultsVersion())
	forgetWritten(frozen.BlockSizes, vmi.Spec.Domain.Devices.Disks)
	if cpu := vmi.Spec.Domain.CPU; cpu == nil || cpu.NUMA == nil {
		frozen.NUMA = nil // NUMA nodes of the owner's choice must not pass for a host's when he turns mirroring on
	}
	if m.Frozen != nil {
		frozen.SchemaVersion, frozen.Unknown = max(frozen.SchemaVersion, m.Frozen.SchemaVersion), m.Frozen.Unknown
		setOmitted(&frozen, m.Frozen)
	}
	setCPU(&frozen, freezeCPU(vmi, front.CPU, m.Frozen, facts.CPU))
	return frozen
}

// defaultsVersion returns the version of the defaults that made the record. The defaults of later boots apply only to what the record lacks, such as a new
// device.
func (m Machine) defaultsVersion() string {
	if m.Frozen != nil && m.Frozen.Defaults != "" {
		return m.Frozen.Defaults
	}
	return m.Defaults.Version
}

// forgetWritten removes block sizes that the user wrote: the record holds only facts of the first host, and a user may change a written size.
func forgetWritten(sizes map[string]record.BlockSize, disks []v1.Disk) {
	for i := range disks {
		if size := disks[i].BlockSize; size != nil && size.Custom != nil {
			delete(sizes, disks[i].Name)
		}
	}
}

// copyForIdentity returns a copy of a VMI that is deep where identity.Fill writes.
func copyForIdentity(given *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	vmi := *given
	domain := &vmi.Spec.Domain
	domain.Devices.Interfaces = slices.Clone(domain.Devices.Interfaces)
	if domain.Firmware != nil {
		firmware := *domain.Firmware
		domain.Firmware = &firmware
	}
	return &vmi
}

// Facts returns what the guest sees of this host when it boots for the first time. It reads m.VMI, m.Host and m.Bindings.
func Facts(m Machine) frontend.Facts {
	f := frontend.Facts{Machines: m.Host.Machines[m.VMI.Spec.Architecture], BlockSizes: blockSizes(m),
		Firmware: backend.FirmwareBuilds(m.VMI, m.Host, m.Bindings)}
	if cpu, known := m.Host.CPUs[m.VMI.Spec.Architecture]; known {
		f.CPU = &cpu
	}
	if len(m.Bindings.HostDevs) > 0 {
		f.HostDevices, f.HostDeviceNUMANodes = map[string]string{}, map[string]int{}
	}
	for name, device := range m.Bindings.HostDevs {
		f.HostDevices[name] = device.Type
		if more := len(device.Bundle); more > 0 {
			if f.USBDevices == nil {
				f.USBDevices = map[string]int{}
			}
			f.USBDevices[name] = 1 + more
		}
		if node, known := backend.NUMANodeOf(m.Host, device); known {
			f.HostDeviceNUMANodes[name] = node
		}
	}
	for _, node := range backend.NUMANodes(m.Host, m.Bindings) {
		f.NUMA = append(f.NUMA, frontend.NUMANode{ID: node.ID, CPUs: uint(len(node.CPUs)), Distances: node.Distances})
	}
	return f
}

// blockSizes returns the block sizes of the volumes of disks with matchVolume.
func blockSizes(m Machine) (sizes map[string]v1.CustomBlockSize) {
	disks := m.VMI.Spec.Domain.Devices.Disks
	for i := range disks {
		volume := m.Bindings.Volumes[disks[i].Name]
		if b := disks[i].BlockSize; b == nil || b.MatchVolume == nil || volume.LogicalBlock == 0 || volume.PhysicalBlock == 0 {
			continue
		}
		if sizes == nil {
			sizes = map[string]v1.CustomBlockSize{}
		}
		sizes[disks[i].Name] = blockSize(m.Host, volume)
	}
	return sizes
}

// blockSize leaves out the discard granularity if the host's libvirt does not support it; the device then has QEMU's default.
func blockSize(host backend.Capabilities, volume backend.Volume) v1.CustomBlockSize {
	size := v1.CustomBlockSize{Logical: volume.LogicalBlock, Physical: volume.PhysicalBlock}
	if discard := volume.DiscardGranularity; discard > 0 && backend.Offers(host, backend.DiscardGranularity) {
		size.DiscardGranularity = &discard
	}
	return size
}
