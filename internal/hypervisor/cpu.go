package hypervisor

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/pkg/domain/abi"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/pkg/record"
	"libvirt.org/go/libvirtxml"
)

// cpuOwner is what a CPU depends on besides the host: the emulator, libvirt's name of the guest's architecture, and kvm or qemu.
type cpuOwner struct{ emulator, arch, virtType string }

// readDomainCaps returns what libvirt says about domains of an emulator; nil if it says nothing about their CPUs.
func readDomainCaps(rpc *libvirt.Libvirt, of cpuOwner) (*libvirtxml.DomainCapsCPU, error) {
	text, err := rpc.ConnectGetDomainCapabilities(libvirt.OptString{of.emulator}, libvirt.OptString{of.arch}, nil, libvirt.OptString{of.virtType}, 0)
	if err != nil {
		return nil, err
	}
	var caps libvirtxml.DomainCaps
	if err := caps.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("libvirt's capabilities of domains cannot be read: %w", err)
	}
	return caps.CPU, nil
}

// hostModel returns the CPU that host-model means for guests of an emulator, with all features. It returns nil if libvirt supports no host-model for them: for
// arm64 under QEMU's emulation, for example.
func hostModel(rpc *libvirt.Libvirt, of cpuOwner, caps *libvirtxml.DomainCapsCPU) (*v1alpha1.ReportedCPU, error) {
	if caps == nil {
		return nil, nil
	}
	for _, mode := range caps.Modes {
		if mode.Name != "host-model" || mode.Supported != "yes" || len(mode.Models) == 0 {
			continue
		}
		cpu := &libvirtxml.DomainCPU{Model: &libvirtxml.DomainCPUModel{Value: mode.Models[0].Name}, Vendor: mode.Vendor}
		for _, f := range mode.Features {
			cpu.Features = append(cpu.Features, libvirtxml.DomainCPUFeature(f))
		}
		// The capabilities have invtsc, which libvirt leaves out of host-model, because a guest with it cannot migrate.
		return expandCPU(rpc, of, cpu, libvirt.ConnectBaselineCPUMigratable)
	}
	return nil, nil
}

// expandCPU returns a CPU with the features that its model implies. The CPU is nil if libvirt cannot expand models of the architecture, or returns a CPU that
// no record can have.
func expandCPU(
	rpc *libvirt.Libvirt, of cpuOwner, cpu *libvirtxml.DomainCPU, flags libvirt.ConnectBaselineCPUFlags,
) (*v1alpha1.ReportedCPU, error) {
	asked := libvirtxml.DomainCPU{XMLName: cpu.XMLName, Model: cpu.Model, Vendor: cpu.Vendor, Features: cpu.Features}
	text, err := xml.Marshal(asked)
	if err != nil {
		return nil, err
	}
	expanded, err := rpc.ConnectBaselineHypervisorCPU(libvirt.OptString{of.emulator}, libvirt.OptString{of.arch}, nil, libvirt.OptString{of.virtType},
		[]string{string(text)}, uint32(libvirt.ConnectBaselineCPUExpandFeatures|flags))
	if err != nil {
		return nil, ignoreErrors(err, libvirt.ErrConfigUnsupported, libvirt.ErrOperationUnsupported, libvirt.ErrNoSupport)
	}
	var made libvirtxml.DomainCPU
	if err := xml.Unmarshal([]byte(expanded), &made); err != nil {
		return nil, fmt.Errorf("libvirt's CPU cannot be read: %w", err)
	}
	c := abi.ReadCPU(&made)
	reported := &v1alpha1.ReportedCPU{Model: c.Model, Vendor: c.Vendor, Features: c.Features, DisabledFeatures: c.DisabledFeatures}
	if record.CheckReportedCPU(reported) != nil {
		return nil, nil //nolint:nilnil // documented
	}
	return reported, nil
}

// RunningCPU returns the CPU of the owner's active domain as libvirt reports it, with all features. It returns nil if the domain is not active, or if libvirt
// reports no model, as for host-passthrough.
func (l *Libvirt) RunningCPU(ctx context.Context, owner Owner) (cpu *v1alpha1.ReportedCPU, err error) {
	err = l.runQuery(ctx, func(rpc *libvirt.Libvirt) error {
		_, running, err := runningDomain(rpc, owner)
		if err != nil || running == nil || running.CPU == nil || running.CPU.Model == nil || running.OS == nil || running.OS.Type == nil || running.Devices == nil {
			return err
		}
		cpu, err = expandCPU(rpc, cpuOwner{running.Devices.Emulator, running.OS.Type.Arch, running.Type}, running.CPU, 0)
		return err
	})
	return cpu, err
}

// hostModels returns the CPU of host-model for each architecture with an emulator. An architecture whose CPU libvirt cannot describe is left out: its guests
// have the CPU that libvirt makes at each start.
func hostModels(rpc *libvirt.Libvirt, caps libvirtxml.Caps, allowKVM KVM) (map[string]v1alpha1.ReportedCPU, error) {
	host := hostFacts(caps, allowKVM)
	models := map[string]v1alpha1.ReportedCPU{}
	for libvirtName, arch := range architectures {
		if host.Emulators[arch] == "" {
			continue
		}
		of := ownerOfCPU(host, libvirtName)
		domains, err := readDomainCaps(rpc, of)
		var cpu *v1alpha1.ReportedCPU
		if err == nil {
			cpu, err = hostModel(rpc, of, domains)
		}
		var answer libvirt.Error
		if err != nil && !errors.As(err, &answer) { // the connection has ended
			return nil, err
		}
		if cpu != nil {
			models[arch] = *cpu
		}
	}
	return models, nil
}

// ownerOfCPU returns what the CPUs of guests of an architecture depend on, by libvirt's name of the architecture.
func ownerOfCPU(host backend.Capabilities, libvirtName string) cpuOwner {
	arch := architectures[libvirtName]
	of := cpuOwner{host.Emulators[arch], libvirtName, "qemu"}
	if arch == host.Architecture && slices.Contains(host.VirtTypes, "kvm") {
		of.virtType = "kvm"
	}
	return of
}

// OfferedCPUs are the CPUs that a host offers to guests of its own architecture.
type OfferedCPUs struct {
	// HostModel is the CPU that host-model means. It is nil if libvirt cannot describe one.
	HostModel *v1alpha1.ReportedCPU
	// Models are the names of the CPU models that a guest gets with all their features, sorted.
	Models []string
	// Emulated reports that the guests would run without KVM.
	Emulated bool
}

// OfferedCPUs asks libvirt which CPUs it offers to guests of this host's architecture.
func (l *Libvirt) OfferedCPUs(ctx context.Context, allowKVM KVM) (offered OfferedCPUs, err error) {
	// On the first call a new libvirt daemon probes QEMU, as for Capabilities.
	err = l.runWithin(ctx, l.changeTimeout, func(rpc *libvirt.Libvirt) error {
		text, err := rpc.ConnectGetCapabilities()
		if err != nil {
			return err
		}
		var caps libvirtxml.Caps
		if err := caps.Unmarshal(text); err != nil {
			return fmt.Errorf("libvirt's capabilities cannot be read: %w", err)
		}
		host := hostFacts(caps, allowKVM)
		if host.Architecture == "" || host.Emulators[host.Architecture] == "" {
			return errors.New("libvirt has no QEMU for the architecture of this host")
		}
		of := ownerOfCPU(host, caps.Host.CPU.Arch)
		domains, err := readDomainCaps(rpc, of)
		if err != nil {
			return err
		}
		offered.Models, offered.Emulated = usableModels(domains), of.virtType != "kvm"
		offered.HostModel, err = hostModel(rpc, of, domains)
		return err
	})
	return offered, err
}

// usableModels returns the CPU models of which the host lacks no feature, sorted. Aliases are among them, because VMs name models by them, and deprecated
// models are, because guests that have one still start.
func usableModels(caps *libvirtxml.DomainCapsCPU) (names []string) {
	if caps == nil {
		return nil
	}
	for _, mode := range caps.Modes {
		if mode.Name != "custom" || mode.Supported != "yes" {
			continue
		}
		// Since version 10.1 libvirt names the features that keep a model from being usable. Guests of named models do without MPX (package frontend).
		withoutMPX := map[string]bool{}
		for _, blocked := range mode.Blockers {
			withoutMPX[blocked.Model] = len(blocked.Features) == 1 && blocked.Features[0].Name == "mpx"
		}
		for _, model := range mode.Models {
			if model.Usable == "yes" || withoutMPX[model.Name] {
				names = append(names, model.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
