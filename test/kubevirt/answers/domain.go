//go:build kubevirt

package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	cloudinit "kubevirt.io/kubevirt/pkg/cloud-init"
	ephemeraldisk "kubevirt.io/kubevirt/pkg/ephemeral-disk"
	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	hostdisk "kubevirt.io/kubevirt/pkg/host-disk"
	netcache "kubevirt.io/kubevirt/pkg/network/cache"
	"kubevirt.io/kubevirt/pkg/network/dhcp"
	"kubevirt.io/kubevirt/pkg/network/domainspec"
	"kubevirt.io/kubevirt/pkg/network/namescheme"
	network "kubevirt.io/kubevirt/pkg/network/setup/launcher"
	"kubevirt.io/kubevirt/pkg/network/vmispec"
	"kubevirt.io/kubevirt/pkg/os/disk"
	storagetypes "kubevirt.io/kubevirt/pkg/storage/types"
	"kubevirt.io/kubevirt/pkg/util"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/types"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/dra"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/generic"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/gpu"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/device/hostdevice/sriov"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/efi"
)

// setScheduled gives a VMI the status that virt-controller and virt-handler write before it starts.
func setScheduled(vmi *v1.VirtualMachineInstance) {
	for _, volume := range vmi.Spec.Volumes {
		status := v1.VolumeStatus{Name: volume.Name}
		if name := claimOf(volume); name != "" && volume.Ephemeral == nil {
			mode, size := k8sv1.PersistentVolumeFilesystem, k8sv1.ResourceList{k8sv1.ResourceStorage: resource.MustParse("1Gi")}
			status.PersistentVolumeClaimInfo = &v1.PersistentVolumeClaimInfo{
				ClaimName: name, VolumeMode: &mode, Capacity: size, Requests: size, AccessModes: []k8sv1.PersistentVolumeAccessMode{k8sv1.ReadWriteMany},
			}
		}
		if storagetypes.IsHotplugVolume(&volume) {
			status.HotplugVolume, status.Phase = &v1.HotplugVolumeStatus{}, v1.VolumeReady
		}
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, status)
	}
	names := namescheme.CreateHashedNetworkNameScheme(vmi.Spec.Networks)
	for _, network := range vmi.Spec.Networks {
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, v1.VirtualMachineInstanceNetworkInterface{
			Name: network.Name, PodInterfaceName: names[network.Name], InfoSource: vmispec.InfoSourceMultusStatus})
	}
	if on := vmi.Spec.Domain.Devices.AutoattachVSOCK; on != nil && *on {
		id := uint32(7)
		vmi.Status.VSOCKCID = &id
	}
}

// data is what virt-launcher gives a guest beside its domain.
type data struct {
	CloudInit *cloudinit.CloudInitData
	Leases    []lease
}

// convertDomain converts a VMI as virt-launcher does before it defines a domain.
func (h *host) convertDomain(vmi *v1.VirtualMachineInstance, c *cluster) (string, json.RawMessage, error) {
	if err := hostdisk.ReplacePVCByHostDisk(vmi); err != nil {
		return "", nil, err
	}
	attached := domainspec.DomainAttachmentByInterfaceName(vmi.Spec.Domain.Devices.Interfaces, c.config.GetNetworkBindings())
	context, err := h.converterContext(vmi, c, attached)
	if err != nil {
		return "", nil, err
	}
	domain := &api.Domain{}
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(vmi, domain, context); err != nil {
		return "", nil, err
	}
	api.NewDefaulter(vmi.Spec.Architecture).SetObjectDefaults_Domain(domain)
	secrets, err := h.writeSecrets(vmi)
	if err != nil {
		return "", nil, err
	}
	var given data
	if given.CloudInit, err = cloudinit.ReadCloudInitVolumeDataSource(vmi.DeepCopy(), secrets); err != nil {
		return "", nil, err
	}
	if given.Leases, err = connectTaps(vmi, domain, attached); err != nil {
		return "", nil, err
	}
	for i := range domain.Spec.Devices.Disks {
		if err := converter.SetDriverCacheMode(&domain.Spec.Devices.Disks[i], direct{}); err != nil {
			return "", nil, err
		}
		converter.SetOptimalIOMode(&domain.Spec.Devices.Disks[i], func(string) bool { return true })
	}
	text, err := xml.Marshal(domain.Spec)
	if err != nil {
		return "", nil, err
	}
	raw, err := json.Marshal(given)
	return strings.ReplaceAll(string(text), h.dir, ""), raw, err
}

// connectTaps adds the taps of a pod to the domain, and returns what its DHCP servers answer.
func connectTaps(vmi *v1.VirtualMachineInstance, domain *api.Domain, attached map[string]string) (leases []lease, err error) {
	configurator := network.NewVMNetworkConfigurator(vmi, netcache.CacheCreator{}, network.WithDomainAttachments(attached),
		network.WithNetworkHandler(links{}), network.WithDHCPConfiguratorFactory(func(nic *v1.Interface, of *v1.Network, pod string) dhcp.Configurator {
			switch {
			case nic.Masquerade != nil:
				real := dhcp.NewMasqueradeConfigurator(pod, links{}, nic, of, pod, vmi.Spec.Subdomain)
				return recorder{real, nic.Name, &leases}
			case nic.Bridge != nil:
				return recorder{bridged{vmi.Spec.Subdomain}, nic.Name, &leases}
			}
			return nil
		}))
	return leases, configurator.SetupPodNetworkPhase2(domain, vmi.Spec.Networks)
}

// converterContext returns the ConverterContext that virt-launcher makes for a VMI.
func (h *host) converterContext(vmi *v1.VirtualMachineInstance, c *cluster, attached map[string]string) (*types.ConverterContext, error) {
	permanent, hot, disks := map[string]v1.VolumeStatus{}, map[string]v1.VolumeStatus{}, map[string]*disk.DiskInfo{}
	for _, status := range vmi.Status.VolumeStatus {
		if status.HotplugVolume != nil {
			hot[status.Name] = status
		} else {
			permanent[status.Name] = status
		}
	}
	for _, volume := range vmi.Spec.Volumes {
		if volume.ContainerDisk != nil {
			disks[volume.Name] = &disk.DiskInfo{Format: "qcow2", VirtualSize: 1 << 30}
		}
	}
	nodes, cpus := hostTopology()
	devices := &vmi.Spec.Domain.Devices
	context := &types.ConverterContext{
		Architecture: arch.NewConverter(vmi.Spec.Architecture), HostArchitecture: vmi.Spec.Architecture,
		VirtualMachine: vmi, AllowEmulation: true, HypervisorDeviceAvailable: true,
		CPUSet: cpus, Topology: nodes, IsBlockPVC: map[string]bool{}, IsBlockDV: map[string]bool{}, DisksInfo: disks,
		PermanentVolumes: permanent, HotplugVolumes: hot,
		MemBalloonStatsPeriod: 10, SMBios: &cmdv1.SMBios{Family: "KubeVirt", Product: "None", Manufacturer: "KubeVirt"},
		UseVirtioTransitional: devices.UseVirtioTransitional != nil && *devices.UseVirtioTransitional,
		EphemeraldiskCreator:  ephemeraldisk.NewEphemeralDiskCreator("/var/run/kubevirt-ephemeral-disks"),
		UseLaunchSecuritySEV:  util.IsSEVVMI(vmi), UseLaunchSecurityTDX: util.IsTDXVMI(vmi), UseLaunchSecurityPV: util.IsSecureExecutionVMI(vmi),
		FreePageReporting: (devices.AutoattachMemBalloon == nil || *devices.AutoattachMemBalloon) && !vmi.IsHighPerformanceVMI(),
		BochsForEFIGuests: true, SerialConsoleLog: devices.LogSerialConsole == nil || *devices.LogSerialConsole,
		DomainAttachmentByInterfaceName: attached, HypervisorName: c.config.GetHypervisor().Name,
	}
	if err := h.chooseFirmware(vmi, context); err != nil {
		return nil, err
	}
	return context, h.addHostDevices(vmi, context)
}

// chooseFirmware chooses the files of UEFI.
func (h *host) chooseFirmware(vmi *v1.VirtualMachineInstance, context *types.ConverterContext) error {
	if !vmi.IsBootloaderEFI() {
		return nil
	}
	secure := vmi.Spec.Domain.Firmware.Bootloader.EFI.SecureBoot
	on, kind := secure == nil || *secure, efi.None
	switch {
	case util.IsSEVSNPVMI(vmi):
		kind = efi.SNP
	case util.IsSEVVMI(vmi):
		kind = efi.SEV
	case util.IsTDXVMI(vmi):
		kind = efi.TDX
	}
	found := efi.DetectEFIEnvironment(vmi.Spec.Architecture, filepath.Join(h.dir, "firmware"))
	if !found.Bootable(on, kind) {
		return fmt.Errorf("no firmware for Secure Boot %v", on)
	}
	context.EFIConfiguration = &types.EFIConfiguration{
		EFICode: found.EFICode(on, kind), EFIVars: found.EFIVars(on, kind), SecureLoader: on && kind != efi.TDX,
	}
	return nil
}

// addHostDevices adds the host devices of the node for the VMI. GPUs of a device plugin are mediated devices.
func (h *host) addHostDevices(vmi *v1.VirtualMachineInstance, context *types.ConverterContext) (err error) {
	claims, err := h.writeClaims(vmi)
	if err != nil {
		return err
	}
	none, devices := &pool{}, vmi.Spec.Domain.Devices
	plugged, err := generic.CreateHostDevicesFromPools(devices.HostDevices, &pool{format: "0000:81:%02x.0"}, none, none)
	if err != nil {
		return err
	}
	drawn, err := dra.CreateDRAHostDevices(vmi, claims)
	if err != nil {
		return err
	}
	context.GenericHostDevices = append(plugged, drawn...)
	plugged, err = gpu.CreateHostDevicesFromPools(devices.GPUs, none, &pool{format: "8b6c6c0e-9b0f-4f7d-8a3e-0c6f0d3f5b%02x"})
	if err != nil {
		return err
	}
	if drawn, err = dra.CreateDRAGPUHostDevices(vmi, claims); err != nil {
		return err
	}
	context.GPUHostDevices = append(plugged, drawn...)
	networks := vmispec.IndexNetworkSpecByName(vmi.Spec.Networks)
	functions := vmispec.FilterInterfacesSpec(devices.Interfaces, func(nic v1.Interface) bool {
		return nic.SRIOV != nil && networks[nic.Name].Multus != nil
	})
	if plugged, err = sriov.CreateHostDevicesFromIfacesAndPool(functions, &pool{format: "0000:65:%02x.0"}); err != nil {
		return err
	}
	if drawn, err = sriov.CreateDRAHostDevices(vmi, claims); err != nil {
		return err
	}
	context.SRIOVDevices = append(plugged, drawn...)
	return nil
}
