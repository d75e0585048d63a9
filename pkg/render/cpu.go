package render

import (
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/record"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// freezeCPU returns the record of a frontend's CPU. It is nil if no model is known: with host-model and host-passthrough on a host whose libvirt reports no
// CPU. With host-passthrough the guest sees the CPU of each host, and the record has the CPU of the last one.
func freezeCPU(vmi *v1.VirtualMachineInstance, cpu *libvirtxml.DomainCPU, frozen *record.Record, host *v1alpha1.ReportedCPU) *record.CPU {
	if cpu == nil || vmi.Spec.Domain.CPU == nil {
		return nil
	}
	var before *record.CPU
	if frozen != nil && frozen.CPU != nil && frozen.CPU.Requested == vmi.Spec.Domain.CPU.Model {
		before = frozen.CPU
	}
	made := abi.ReadCPU(cpu)
	switch {
	case made.Model != "":
	case cpu.Mode == v1.CPUModeHostPassthrough && host != nil:
		made.Model, made.Vendor, made.Features, made.DisabledFeatures = host.Model, host.Vendor, host.Features, host.DisabledFeatures
	case cpu.Mode == v1.CPUModeHostPassthrough && before != nil:
		return before
	case isForgotten(frozen):
		return frozen.CPU // until a boot knows its CPU
	default:
		return nil
	}
	made.Requested = vmi.Spec.Domain.CPU.Model
	switch {
	case before != nil:
		made.FirstSeen, made.Verified = before.FirstSeen, before.Verified && record.DescribeCPUChange(before, &made) == ""
	case frozen != nil && frozen.CPU == nil:
		// A model of the spec was the guest's CPU at earlier boots as well.
		made.FirstSeen = made.Requested == v1.CPUModeHostModel || made.Requested == v1.CPUModeHostPassthrough
	}
	return &made
}

// CaptureCPU adds the CPU of a running domain to its record, for a VMI with host-model: the CPU that libvirt made of it at the start. A domain that does not
// run has none yet. libvirt writes the features that the model does not have, and those that the CPU lacks.
func CaptureCPU(captured *record.Record, vmi *v1.VirtualMachineInstance, running *libvirtxml.Domain) {
	spec, cpu := vmi.Spec.Domain.CPU, running.CPU
	if spec == nil || spec.Model != v1.CPUModeHostModel || cpu == nil || cpu.Mode != "custom" || cpu.Model == nil || cpu.Model.Value == "" {
		return
	}
	seen := abi.ReadCPU(cpu)
	if cpu.Topology == nil {
		seen.Topology = record.Topology{Sockets: 1, Cores: 1, Threads: 1}
		if running.VCPU != nil { // libvirt makes each vCPU a socket
			seen.Topology.Sockets = max(running.VCPU.Value, 1)
		}
	}
	seen.Requested, seen.Verified = spec.Model, running.ID != nil && cpu.Check == "full"
	setCPU(captured, &seen)
}

// setCPU sets the CPU of a record, and raises its schemaVersion to the version that has CPUs.
func setCPU(r *record.Record, cpu *record.CPU) {
	if r.CPU = cpu; cpu != nil {
		r.SchemaVersion = max(r.SchemaVersion, cpuVersion)
	}
}

// cpuVersion is the schemaVersion that added cpu.
const cpuVersion = 2

// ForgetCPU returns the record with a CPU that the next boot records anew, as if the owner had changed spec.domain.cpu.model. The record keeps what the guest
// found, so that the boot says what changes, and the next CPU is not taken for the first one that was seen.
func ForgetCPU(recorded *record.Record) *record.Record {
	forgotten := recorded.DeepCopy()
	if cpu := forgotten.CPU; cpu != nil {
		cpu.Requested, cpu.FirstSeen, cpu.Verified = v1alpha1.CPURequestedNone, false, false
	}
	return forgotten
}

// isForgotten reports whether the next boot records the CPU of a record anew.
func isForgotten(recorded *record.Record) bool {
	return recorded != nil && recorded.CPU != nil && recorded.CPU.Requested == v1alpha1.CPURequestedNone
}

// VerifiesCPU reports whether libvirt may add or drop features when it starts a guest with the CPU of this frontend: the guest's CPU is recorded, and no boot
// has shown yet that it runs as recorded.
func VerifiesCPU(front *libvirtxml.Domain) bool {
	return front.CPU != nil && front.CPU.Check == checkPartial
}

// checkPartial is libvirt's check of a CPU that it may adapt at the start.
const checkPartial = "partial"

// VerifyCPU returns the record with its CPU marked as verified, if the guest runs with exactly the recorded CPU. It returns nil if there is nothing to change.
// The difference names what the running guest has or lacks. The running CPU is hostile input.
func VerifyCPU(recorded *record.Record, running *v1alpha1.ReportedCPU) (verified *record.Record, difference string) {
	if recorded == nil || recorded.CPU == nil || recorded.CPU.Requested != v1.CPUModeHostModel || recorded.CPU.Verified || running == nil {
		return nil, ""
	}
	if err := record.CheckReportedCPU(running); err != nil {
		return nil, ""
	}
	seen := *recorded.CPU
	seen.Model, seen.Vendor, seen.Features, seen.DisabledFeatures = running.Model, running.Vendor, running.Features, running.DisabledFeatures
	if difference = record.DescribeCPUChange(recorded.CPU, &seen); difference != "" {
		return nil, difference
	}
	verified = recorded.DeepCopy()
	verified.CPU.Verified = true
	return verified, ""
}
