//go:build kubevirt

package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"time"

	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/defaults"
	"kubevirt.io/kubevirt/pkg/ephemeral-disk/fake"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	hooks "kubevirt.io/kubevirt/pkg/hooks/v1alpha3"
	grpcutil "kubevirt.io/kubevirt/pkg/util/net/grpc"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/virtio"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/plugins"
)

// launcher is virt-launcher, as far as it defines a guest.
type launcher struct {
	Request
	libvirt func(xml string) (string, error)
}

// defineDomain follows virtwrap/manager.go, allocateHotplugPorts, and of virtwrap/network/nichotplug.go. Both need libvirt's C library to be
// built. The types,
// and what happens to a domain in them, are KubeVirt's own.
func (l *launcher) defineDomain() error {
	spec, err := l.convertDomain()
	if err != nil {
		return err
	}
	if !defaults.SupportsPCIeHotplug(&l.VMI.Spec) {
		_, err := l.setDomain(spec)
		return err
	}
	holders, extra, err := l.portCounts(spec)
	if err != nil {
		return err
	}
	if holders > 0 {
		if err := l.reserveAddresses(spec, holders); err != nil {
			return err
		}
	}
	if _, err := l.setDomain(spec); err != nil || extra == 0 {
		return err
	}
	last := 0
	for _, c := range spec.Devices.Controllers {
		if n, err := strconv.Atoi(c.Index); err == nil && c.Type == "pci" {
			last = max(last, n)
		}
	}
	for i := last + 1; i <= min(last+extra, 31); i++ {
		spec.Devices.Controllers = append(spec.Devices.Controllers, api.Controller{Type: "pci", Index: strconv.Itoa(i), Model: "pcie-root-port"})
	}
	_, err = l.setDomain(spec)
	return err
}

// reserveAddresses defines the domain with placeholders, and copies the devices with the addresses that libvirt gave them, except the interfaces.
func (l *launcher) reserveAddresses(spec *api.DomainSpec, holders int) error {
	first := spec.DeepCopy()
	model := virtio.InterpretTransitionalModelType(l.VMI.Spec.Domain.Devices.UseVirtioTransitional, l.VMI.Spec.Architecture)
	for i := range holders {
		name := fmt.Sprintf("placeholder-%d", i)
		first.Devices.Interfaces = append(first.Devices.Interfaces, api.Interface{
			Type: "ethernet", Model: &api.Model{Type: model}, Alias: api.NewNonUserDefinedAlias(name), Target: &api.InterfaceTarget{Device: name, Managed: "no"},
		})
	}
	text, err := l.setDomain(first)
	if err != nil {
		return err
	}
	placed := &api.DomainSpec{}
	if err := xml.Unmarshal([]byte(text), placed); err != nil {
		return err
	}
	placed.Devices.Interfaces = spec.Devices.Interfaces
	placed.Devices.DeepCopyInto(&spec.Devices)
	return nil
}

// portCounts returns the numbers of placeholders and of further root ports. KubeVirt: docs/pci-topology.md, version v3.
func (l *launcher) portCounts(spec *api.DomainSpec) (holders, extra int, err error) {
	if l.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" {
		return 0, 0, nil
	}
	n := len(l.VMI.Spec.Domain.Devices.Interfaces)
	if n > 0 {
		holders = max(0, 4-n)
	}
	if text, ok := l.VMI.Annotations[v1.PciInterfaceSlotCountAnnotation]; ok {
		slots, err := strconv.Atoi(text)
		if err != nil {
			return 0, 0, err
		}
		holders = max(0, slots-n)
	}
	used, err := converter.CountPCIDevices(spec)
	total, least := 8, 3
	if spec.Memory.Value > 2<<30 {
		total, least = 16, 6
	}
	return holders, max(0, max(total-used, least)-holders), err
}

// convertDomain makes the domain before it is defined first, with what the second phase of the pod's network adds to interfaces.
func (l *launcher) convertDomain() (*api.DomainSpec, error) {
	taps := map[string]string{}
	for _, i := range l.VMI.Spec.Domain.Devices.Interfaces {
		taps[i.Name] = "tap"
	}
	devices := &l.VMI.Spec.Domain.Devices
	domain := &api.Domain{}
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(l.VMI, domain, &types.ConverterContext{
		Architecture: arch.NewConverter(l.VMI.Spec.Architecture), HostArchitecture: l.VMI.Spec.Architecture, VirtualMachine: l.VMI, AllowEmulation: true,
		IsBlockPVC: map[string]bool{}, IsBlockDV: map[string]bool{}, EphemeraldiskCreator: &fake.MockEphemeralDiskImageCreator{},
		SMBios: &cmdv1.SMBios{Family: "KubeVirt", Product: "None", Manufacturer: "KubeVirt"}, MemBalloonStatsPeriod: 10, FreePageReporting: true,
		SerialConsoleLog: true, DomainAttachmentByInterfaceName: taps, HypervisorName: "kvm",
		UseVirtioTransitional: devices.UseVirtioTransitional != nil && *devices.UseVirtioTransitional,
	}); err != nil {
		return nil, err
	}
	api.NewDefaulter(l.VMI.Spec.Architecture).SetObjectDefaults_Domain(domain)
	for i := range domain.Spec.Devices.Interfaces {
		domain.Spec.Devices.Interfaces[i].Target = &api.InterfaceTarget{Device: fmt.Sprintf("tap%d", i), Managed: "no"}
	}
	return &domain.Spec, nil
}

// setDomain asks the hooks and defines the domain, as virtwrap/util/libvirt_helper.go does: what they answer takes the place of the domain for the next time.
func (l *launcher) setDomain(spec *api.DomainSpec) (string, error) {
	text, err := xml.MarshalIndent(spec, "", "\t")
	if err != nil {
		return "", err
	}
	instance, err := json.Marshal(l.VMI)
	if err != nil {
		return "", err
	}
	if l.Sidecar != "" {
		if text, err = l.askSidecar(text, instance); err != nil {
			return "", err
		}
		answered := &api.DomainSpec{}
		if err := xml.Unmarshal(text, answered); err != nil {
			return "", err
		}
		answered.DeepCopyInto(spec)
	}
	if len(l.Plugins) > 0 {
		updated, changed, err := plugins.ApplyDomainHooks(l.Plugins, l.VMI, spec, pluginv1alpha1.InvocationContextBoot)
		if err != nil {
			return "", err
		}
		updated.DeepCopyInto(spec)
		text = []byte(changed)
	}
	return l.libvirt(string(text))
}

func (l *launcher) askSidecar(domain, vmi []byte) ([]byte, error) {
	connection, err := grpcutil.DialSocketWithTimeout(l.Sidecar, 1)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := hooks.NewCallbacksClient(connection).OnDefineDomain(ctx, &hooks.OnDefineDomainParams{DomainXML: domain, Vmi: vmi})
	return result.GetDomainXML(), err
}
